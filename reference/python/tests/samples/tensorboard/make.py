"""Writes this sample: ``python make.py`` with tensorboardX 2.6.5 and tensorboard 2.21, in this directory."""

import math

from tensorboardX import SummaryWriter

with SummaryWriter("run") as writer:
    for step in range(40):
        writer.add_scalar("train/loss", 2.0 / (step + 1), step)
        writer.add_scalar("train/lr", 1e-3 * math.cos(step / 40), step)
        if step % 10 == 9:
            writer.add_scalar("val/accuracy", math.nan if step == 19 else step / 40, step)
    writer.add_text("remarks", "learning rate too high?", 39)
    writer.add_histogram("weights", [0.0, 1.0, 2.0], 39)
    writer.add_hparams({"lr": 0.001, "optimizer": "adamw", "bf16": True}, {"best": 0.975}, name="parameters")
