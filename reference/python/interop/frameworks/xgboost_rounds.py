"""Boosts trees with XGBoost; a second start continues after the last round that was saved."""

# --8<-- [start:program]
import json
import os
import pathlib

import numpy
import xgboost

from toyspec.integrations.xgboost import ToyspecCallback

numbers = numpy.random.default_rng(7).normal(size=(200, 4))
data = xgboost.DMatrix(numbers, label=numbers.sum(axis=1))
os.makedirs("checkpoints", exist_ok=True)
saved = max(pathlib.Path("checkpoints").iterdir(), key=os.path.getmtime, default=None)
booster = xgboost.Booster(model_file=saved) if saved else None
done = booster.num_boosted_rounds() if booster else 0
history: dict[str, dict[str, list[float]]] = {}

xgboost.train(
    {"max_depth": 2, "eta": 0.3, "seed": 7, "nthread": 1},
    data,
    num_boost_round=20 - done,
    evals=[(data, "train")],
    evals_result=history,
    verbose_eval=False,
    xgb_model=booster,
    callbacks=[
        ToyspecCallback("runs", run_id="trees"),
        xgboost.callback.TrainingCheckPoint("checkpoints", name="round", interval=5),
    ],
)

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[done + at + 1, "train/rmse", value] for at, value in enumerate(history["train"]["rmse"])], file)
