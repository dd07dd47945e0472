"""Writes this sample: ``python make.py`` with ray 2.60.0, in this directory."""

import glob
import os
import shutil

import ray
from ray import tune


def train(config: dict[str, float]) -> None:
    """Report a loss that halves, and a reward that is not a number at first."""
    for step in range(1, 5):
        tune.report({"mean_loss": config["lr"] / step, "env": {"reward": float("nan") if step == 1 else float(step)}})


# One trial writes result.json and progress.csv; the second is the sample of the dialect ray-csv.
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
run = tune.RunConfig(name="out", storage_path=os.path.abspath("."), verbose=0)
tune.Tuner(train, param_space={"lr": 0.01, "layers": 2}, run_config=run).fit()
ray.shutdown()
shutil.move(glob.glob("out/train_*/result.json")[0], "result.json")
shutil.move(glob.glob("out/train_*/progress.csv")[0], "../ray-csv/progress.csv")
shutil.rmtree("out")
