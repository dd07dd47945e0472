"""Writes the sample toy: ``python make_own.py`` in this directory.

toyspec writes them. Those of kaun-board and munin are by these programs: see munin/make.ml.
"""

import math
import shutil

import toyspec

shutil.rmtree("toy", ignore_errors=True)
settings = {"lr": 0.001, "layers": 2}
with toyspec.start_run(
    "toy", run_id="first-try", arch="tiny", git=None, config=settings, name="first try", tags=["small"], notes="warm-up"
) as run:
    run.define("val/acc", goal="max")
    for step in range(1, 7):
        run.log({"train/loss": math.nan if step == 5 else 2.0 / step, "lr": 0.001}, step=step)
        if step % 3 == 0:
            run.log({"val/acc": step / 8}, step=step)
