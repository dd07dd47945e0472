"""Writes this sample: ``TRACKIO_DIR=$PWD python make.py`` with trackio 0.43.0, in this directory."""

import math

import trackio

trackio.init(project="demo", name="first-try", group="sweep-1", config={"lr": 0.001, "arch": "gpt"}, resume="never")
for step in range(20):
    trackio.log({"train/loss": 2.0 / (step + 1), "train/lr": 0.001}, step=step)
trackio.log({"val/acc": math.nan, "remark": "text", "bound": math.inf}, step=20)
trackio.finish()
