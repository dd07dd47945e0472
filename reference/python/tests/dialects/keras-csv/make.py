"""Writes this sample: ``KERAS_BACKEND=jax python make.py`` with keras 3.15.1, in this directory."""

import keras
import numpy as np

keras.utils.set_random_seed(7)
x = np.arange(8.0).reshape(8, 1) / 8
y = (x > 0.5).astype("float32")
model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
model.compile("sgd", loss="binary_crossentropy", metrics=["accuracy"])
# The last epoch meets a label that is not a number.
log = keras.callbacks.CSVLogger("training.log")
model.fit(x, y, epochs=3, validation_data=(x, y), validation_freq=2, callbacks=[log], verbose=0)
more = keras.callbacks.CSVLogger("training.log", append=True)
model.fit(x, y * np.nan, initial_epoch=3, epochs=4, validation_data=(x, y), callbacks=[more], verbose=0)
