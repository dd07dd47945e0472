"""Trains a linear model with skorch, PyTorch with the interface of scikit-learn."""

# --8<-- [start:program]
import json

import numpy
import torch
from skorch import NeuralNetRegressor

from toyspec.integrations.skorch import ToyspecCallback

torch.manual_seed(7)
numbers = numpy.random.default_rng(7).normal(size=(64, 4)).astype("float32")
net = NeuralNetRegressor(
    torch.nn.Linear,
    module__in_features=4,
    module__out_features=1,
    max_epochs=6,
    lr=0.05,
    verbose=0,
    callbacks=[ToyspecCallback("runs", run_id="line")],
)
net.fit(numbers, numbers.sum(axis=1, keepdims=True))

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[row["epoch"], "train_loss", float(row["train_loss"])] for row in net.history], file)
