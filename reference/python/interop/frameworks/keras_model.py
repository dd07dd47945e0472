"""Trains a linear model with Keras 3; a second start continues after the last epoch that was saved."""

# --8<-- [start:program]
import csv
import json
import os

import keras
import numpy

from toyspec.integrations.keras import ToyspecCallback

keras.utils.set_random_seed(7)
numbers = numpy.random.default_rng(7).normal(size=(64, 4)).astype("float32")
sums = numbers.sum(axis=1, keepdims=True)

saved = "checkpoint.keras"
if os.path.exists(saved):
    model = keras.saving.load_model(saved)
    epochs_done = int(model.optimizer.iterations) // 8
else:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    epochs_done = 0

model.fit(
    numbers,
    sums,
    batch_size=8,
    epochs=8,
    initial_epoch=epochs_done,
    validation_data=(numbers, sums),
    shuffle=False,
    verbose=0,
    callbacks=[
        ToyspecCallback("runs", run_id="line"),
        keras.callbacks.ModelCheckpoint(saved),
        keras.callbacks.CSVLogger("log.csv", append=True),
    ],
)

# --8<-- [end:program]
with open("log.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
with open("reported.json", "w", encoding="utf-8") as file:
    json.dump([[8 * (int(row["epoch"]) + 1), "loss", float(row["loss"])] for row in rows], file)
