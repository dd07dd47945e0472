"""Writes this sample: ``TRACKIO_DIR=$PWD python make.py`` with trackio 0.43.0, in this directory."""

import math
import os
import time

os.environ["TRACKIO_STORAGE_MODE"] = "jsonl"

import trackio

trackio.init(project="demo", name="lucky-bird-1", config={"lr": 0.0003}, resume="never")
for step in range(6):
    trackio.log({"train/loss": 2.5 / (step + 1), "grad_norm": math.nan if step == 2 else 1.0}, step=step)
    if step % 2:
        # Trackio writes a fragment with what it has, twice in a second.
        time.sleep(1.5)
trackio.log_system({"gpu/0/utilization": 87.0})
trackio.finish()
