"""Logs a training of Lightning: ``Trainer(logger=ToyspecLogger())``; also a logger for Fabric.

Written against lightning 2.6. With a *run_id*, a training that resumes from a checkpoint continues the run.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers.logger import Logger

from toyspec.core.format.canonical import members_of
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToyspecLogger(Logger):
    """Writes the run of one Trainer; the options are those of RunOptions. The process of rank 0 writes."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        super().__init__()
        self._start = Start()
        self.run = TrainingRun(RunOptions(root=root, **options), self._start)
        self._trainer: weakref.ref[Any] | None = None

    @property
    def name(self) -> str:
        """Name of the run for people."""
        return self.run.options.name or "toyspec"

    @property
    def version(self) -> str | None:
        """Id of the run; None before it has started, unless it was given."""
        return self.run.run_id

    @property
    def save_dir(self) -> str:
        """Directory of all runs, below which Lightning saves checkpoints."""
        return os.fspath(self.run.options.root)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Write the settings of the run, which begins with its model, that Lightning gives next."""
        del args, kwargs
        settings = members_of(params or {})
        if self.run.writer is None:
            self._start.config = {**self._start.config, **settings}
        else:
            self.run.begin(settings)

    @rank_zero_only
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Begin the run with the size of the *model*; the graph itself is not logged."""
        del input_array
        parameters = getattr(model, "parameters", None)
        self._start.model = {"arch": type(model).__name__.lower()}
        self.run.begin(
            {"num_parameters": sum(int(part.numel()) for part in parameters())} if callable(parameters) else {}
        )
        trainer = getattr(model, "_trainer", None)
        self._trainer = None if trainer is None else weakref.ref(trainer)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Write the numbers among *metrics* at *step*; Lightning counts steps from 0."""
        values = dict(metrics)
        epoch = values.pop("epoch", None)
        trainer = None if self._trainer is None else self._trainer()
        self.run.log(values, step=step, epoch=None if epoch is None else float(epoch))
        if trainer is not None and self.run.should_stop:
            trainer.should_stop = True

    @property
    def experiment(self) -> TrainingRun:
        """The run, as other loggers give what they log into."""
        return self.run

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Take how a stage ended: a failed one ends the run with the exception, else it stays open for the next."""
        trainer = None if self._trainer is None else self._trainer()
        if sys.exc_info()[1] is not None:
            self.run.end()
        elif status not in {"success", "finished"}:
            self.run.end(reason="errored", cause=f"Lightning reported {status}")
        elif getattr(trainer, "interrupted", False):
            self.run.end(reason="interrupted")
        else:
            self.run.end_training()
