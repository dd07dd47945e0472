"""Trains a linear model with skorch, which is PyTorch with scikit-learn's interface; a second start continues it."""

# --8<-- [start:program]
import json

import numpy
import torch
from skorch import NeuralNetRegressor
from skorch.callbacks import Checkpoint, LoadInitState

from toyspec.integrations.skorch import ToyspecCallback

torch.manual_seed(7)
numbers = numpy.random.default_rng(7).normal(size=(64, 4)).astype("float32")
saved = Checkpoint(dirname="checkpoint", monitor=None)
try:
    with open("checkpoint/history.json", encoding="utf-8") as file:
        epochs_done = len(json.load(file))
except FileNotFoundError:
    epochs_done = 0
net = NeuralNetRegressor(
    torch.nn.Linear,
    module__in_features=4,
    module__out_features=1,
    max_epochs=6 - epochs_done,
    lr=0.05,
    verbose=0,
    callbacks=[ToyspecCallback("runs", run_id="line"), saved, LoadInitState(saved)],
)
net.fit(numbers, numbers.sum(axis=1, keepdims=True))

# --8<-- [end:program]
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[row["epoch"], "train_loss", float(row["train_loss"])] for row in net.history], file)
