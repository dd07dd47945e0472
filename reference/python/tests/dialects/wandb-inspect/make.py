"""Writes this sample and ../wandb: ``python make.py`` with wandb 0.31.0, in this directory."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}

import wandb

quiet = {"disable_git": True, "console": "off", "x_disable_stats": True, "x_disable_machine_info": True}
settings = wandb.Settings(host="host", **quiet)
with wandb.init(project="demo", id="first", dir=".", config={"lr": 1e-3}, settings=settings) as run:
    for step in range(4):
        row = {"train/loss": 2.5 / (step + 1), "lr": 1e-3, "eval": {"acc": step / 4}}
        run.log(row if step else row | {"grad": math.inf})
    run.log({"train/loss": math.nan, "done": True})
command = [str(Path(sys.executable).with_name("wandb")), "leet", "inspect", "--json"]
records = subprocess.run([*command, "wandb/latest-run"], stdout=subprocess.PIPE, check=True).stdout
Path("records.jsonl").write_bytes(records)
rows = [record["history"]["item"] for record in map(json.loads, records.splitlines()) if record["type"] == "history"]
Path("../wandb/history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
shutil.rmtree("wandb")
