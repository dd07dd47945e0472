"""Writes this sample: ``python make.py`` with wandb 0.31.0, in this directory."""

import math
import os

import wandb

os.environ["WANDB_SILENT"] = "true"
run = wandb.init(
    mode="offline",
    project="demo",
    name="first try",
    group="sweep-1",
    tags=["small"],
    notes="with warm-up",
    config={"lr": 0.001, "model": {"layers": 2}, "name": "gpt"},
    settings=wandb.Settings(x_disable_stats=False, disable_git=True, save_code=False, console="off", disable_code=True),
)
run.define_metric("val/acc", step_metric="epoch", summary="max")
for step in range(30):
    run.log({"train/loss": 2.0 / (step + 1), "train/lr": 0.001, "nested": {"norm": 0.5 * step}}, step=step)
    if step % 10 == 9:
        run.log({"val/acc": math.nan if step == 19 else step / 40, "epoch": step // 10, "remark": "text"}, step=step)
run.log({"weights": wandb.Histogram([0.0, 1.0, 2.0])}, step=30)
run.finish()
