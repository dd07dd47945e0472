"""Writes this sample: ``PYTHONPATH=<a checkout of detectron2 at 02b5c4e2> python make.py``, in this directory.

It needs torch 2.15.0, fvcore and iopath; only detectron2.utils.events is used, which needs no compiled code.
"""

import math

from detectron2.utils.events import EventStorage, JSONWriter

writer = JSONWriter("metrics.json")
with EventStorage() as storage:
    for step in range(80):
        storage.put_scalars(total_loss=2.0 / (step + 1), loss_cls=1.0 / (step + 1))
        storage.put_scalar("data_time", 0.0078125)
        storage.put_scalar("eta_seconds", 0.25 * (80 - step), smoothing_hint=False)
        storage.put_scalar("lr", 0.001, smoothing_hint=False)
        if step % 20 == 19 and step < 79:
            writer.write()
        storage.step()
    storage.put_scalar("bbox/AP", math.nan, smoothing_hint=False)
    writer.write()
writer.close()
