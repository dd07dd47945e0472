"""Boosts trees with LightGBM; a second start continues after the last round that was saved."""

# --8<-- [start:program]
import json
import os
from typing import Any

import lightgbm
import numpy

from toyspec.integrations.lightgbm import toyspec_callback

numbers = numpy.random.default_rng(7).normal(size=(200, 4))
data = lightgbm.Dataset(numbers, label=numbers.sum(axis=1), free_raw_data=False)
done = 0
if os.path.exists("checkpoint.txt"):
    done = lightgbm.Booster(model_file="checkpoint.txt").current_iteration()
history: dict[str, Any] = {}


def save(environment: Any) -> None:
    """Save the model every five rounds."""
    if (environment.iteration + 1) % 5 == 0:
        environment.model.save_model("checkpoint.txt")


lightgbm.train(
    {"objective": "regression", "num_leaves": 4, "seed": 7, "verbosity": -1, "num_threads": 1},
    data,
    num_boost_round=20 - done,
    valid_sets=[data],
    valid_names=["train"],
    init_model="checkpoint.txt" if done else None,
    callbacks=[lightgbm.record_evaluation(history), toyspec_callback("runs", run_id="trees"), save],
)

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[done + at + 1, "train/l2", value] for at, value in enumerate(history["train"]["l2"])], file)
