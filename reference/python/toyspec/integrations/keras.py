"""Logs a training of Keras 3: ``model.fit(..., callbacks=[ToyspecCallback()])``.

Written against keras 3.15, with any back end. An epoch is logged with its number, and the batches with ``batches=N``.
With a *run_id*, ``fit(..., initial_epoch=N)`` continues the run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import keras

from toyspec.integrations.training_run import Logs, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToyspecCallback(Logs, keras.callbacks.Callback):
    """Writes the run of one ``fit``; the options are those of RunOptions. The step is the number of batches trained."""

    def __init__(self, root: str = "runs", *, batches: int = 0, **options: Any) -> None:
        """Log below *root* each epoch, and every *batches* batches; raise TypeError for an unknown option."""
        super().__init__()
        self.run = run_of(root, options)
        self._every = batches
        self._epoch = 0
        self._is_fitting = False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begin the run, or add the settings of another training to it."""
        del logs
        self._is_fitting = True
        self.run.begin({**_settings(self.model), **{k: v for k, v in self.params.items() if v is not None}})

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Remember the number of the epoch, from 0."""
        del logs
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write what Keras measured up to this batch."""
        if self._every and not (batch + 1) % self._every:
            values = {f"batch/{name}": value for name, value in (logs or {}).items()}
            self.run.log(values, step=self._step(), epoch=self._epoch)
            self._obey()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write the values of the epoch, those of the validation by ``val/``."""
        values = {re.sub("^val_", "val/", name): value for name, value in (logs or {}).items()}
        learning_rate = _learning_rate(self.model)
        if learning_rate is not None:
            values.setdefault("lr", learning_rate)
        self.run.log(values, step=self._step(), epoch=epoch + 1)
        self._obey()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Leave the run open; it ends with the program, or when another one begins."""
        del logs
        self._is_fitting = False
        self.run.end_training()

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Write the values of an ``evaluate`` outside of ``fit`` by ``test/``."""
        if not self._is_fitting:
            self.run.log({f"test/{name}": value for name, value in (logs or {}).items()}, step=self._step())

    def _obey(self) -> None:
        if self.run.should_stop:
            self.model.stop_training = True

    def _step(self) -> int:
        """Return the number of batches that the optimizer has taken."""
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))


def _settings(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"num_parameters": int(model.count_params()), "backend": keras.backend.backend()}
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        plain = str | int | float | bool
        found["optimizer"] = {name: each for name, each in optimizer.get_config().items() if isinstance(each, plain)}
    return found


def _learning_rate(model: Any) -> float | None:
    try:
        return float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))
    except (AttributeError, TypeError, ValueError):
        return None
