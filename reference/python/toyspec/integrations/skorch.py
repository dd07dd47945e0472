"""A callback for skorch: ``NeuralNetClassifier(..., callbacks=[ToyspecCallback()])``.

Written against skorch 1.4.
"""

from __future__ import annotations

from typing import Any

from skorch.callbacks import Callback

from toyspec.integrations.training_run import RunOptions, Start, TrainingRun


class ToyspecCallback(Callback):
    """Writes the run of one ``fit``; the options are those of RunOptions. An epoch is a step, counted from 1."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        self.root = root
        self.options = options
        RunOptions(root=root, **options)

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:  # noqa: N803 - skorch's name
        """Begin the run with the settings of the net."""
        del X, y, kwargs
        plain = {name: value for name, value in net.get_params(deep=False).items() if _is_plain(value)}
        start = Start(framework="skorch", config=plain, model={"arch": type(net.module_).__name__.lower()})
        self.run_ = TrainingRun(RunOptions(root=self.root, **self.options), start)
        self.run_.begin()

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        """Write the numbers of the epoch in the net's history."""
        del kwargs
        row = {
            name: value for name, value in net.history[-1].items() if name != "batches" and not name.endswith("_best")
        }
        self.run_.log(row, step=int(row.pop("epoch")))

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:  # noqa: N803 - likewise
        """End the run."""
        del net, X, y, kwargs
        self.run_.end()


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)
