"""Writes this sample: ``python make.py CHECKOUT`` with nanoGPT at 3adf61e1 and torch 2.15.0, in this directory.

nanoGPT prints to the console, and gives a dictionary for each evaluation to wandb.log; it writes no file of metrics
itself. In place of wandb is a module with that one function, which writes the dictionaries as lines of JSON.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

WANDB = """
import json
def init(**_): pass
def log(row):
    with open("log.jsonl", "a") as file:
        file.write(json.dumps(row, default=float) + "\\n")
"""
OPTIONS = (
    "dataset=few device=cpu compile=False dtype=float32 wandb_log=True eval_interval=10 log_interval=5 eval_iters=2 "
    "gradient_accumulation_steps=1 batch_size=4 block_size=16 n_layer=1 n_head=2 n_embd=16 max_iters=30 "
    "lr_decay_iters=30 warmup_iters=5 always_save_checkpoint=False"
)

with tempfile.TemporaryDirectory() as folder:
    shutil.copytree(sys.argv[1], folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    os.mkdir(f"{folder}/data/few")
    for name in ("train", "val"):
        (np.arange(4096) % 61).astype(np.uint16).tofile(f"{folder}/data/few/{name}.bin")
    with open(f"{folder}/wandb.py", "w", encoding="utf-8") as file:
        file.write(WANDB)
    command = [sys.executable, "train.py", *(f"--{option}" for option in OPTIONS.split())]
    with open("../nanogpt-console/train.log", "wb") as console:
        subprocess.run(command, cwd=folder, stdout=console, check=True)
    shutil.copy(f"{folder}/log.jsonl", "log.jsonl")
