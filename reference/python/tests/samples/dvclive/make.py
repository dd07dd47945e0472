"""Writes this sample: ``python make.py`` with dvclive 3.49.1, in this directory."""

import math

from dvclive import Live

with Live("dvclive", save_dvc_exp=False, dvcyaml=None) as live:
    live.log_params({"lr": 0.001, "model": {"layers": 2}})
    for step in range(20):
        live.log_metric("train/loss", 2.0 / (step + 1))
        if step % 5 == 4:
            live.log_metric("val/acc", math.nan if step == 9 else step / 20)
        live.next_step()
    live.log_metric("total", 7, plot=False)
