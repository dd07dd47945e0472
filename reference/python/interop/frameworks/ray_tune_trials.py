"""Searches a learning rate with Ray Tune: each trial is a run, and the experiment is their group."""

# --8<-- [start:program]
import json
import os

import ray
from ray import tune

from toyspec.integrations.ray_tune import ToyspecCallback


def train(config: dict[str, float]) -> None:
    """Descend on a parabola."""
    position = 1.0
    for _ in range(5):
        position -= config["lr"] * 2 * position
        tune.report({"loss": position**2})


runs = os.path.abspath("runs")
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
tuner = tune.Tuner(
    train,
    param_space={"lr": tune.grid_search([0.1, 0.3])},
    run_config=tune.RunConfig(
        name="parabola", storage_path=os.path.abspath("ray"), verbose=0, callbacks=[ToyspecCallback(runs)]
    ),
)
results = tuner.fit()
ray.shutdown()

# --8<-- [end:program]
rows = [row for result in results for _, row in result.metrics_dataframe.iterrows()]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[int(row["training_iteration"]), "loss", float(row["loss"])] for row in rows], file)
