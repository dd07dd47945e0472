"""Writes this sample: ``TRACKIO_DIR=$PWD/out python make.py`` with trackio 0.43.0, in this directory."""

import glob
import math
import os
import shutil

os.environ["TRACKIO_STORAGE_MODE"] = "jsonl"

import trackio

trackio.init(project="demo", name="lucky-bird-1", config={"lr": 0.0003}, resume="never")
for step in range(4):
    trackio.log({"train/loss": 2.5 / (step + 1), "grad_norm": math.nan if step == 2 else 1.0}, step=step)
trackio.finish()
(fragment,) = glob.glob("out/inbox/*/*.jsonl")
shutil.move(fragment, "00000000.jsonl")
shutil.rmtree("out")
