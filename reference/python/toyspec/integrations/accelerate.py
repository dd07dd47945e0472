"""Logs what ``accelerator.log`` gets: ``Accelerator(log_with="toyspec")`` once this module is imported.

Written against accelerate 1.15. Options of RunOptions come from ``init_trackers(..., init_kwargs={"toyspec": {...}})``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelerate.tracking import GeneralTracker, register_tracker_class

from toyspec.integrations.training_run import TrainingRun, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class ToyspecTracker(GeneralTracker):
    """A run named after the project. Only the main process writes."""

    name = "toyspec"
    requires_logging_directory = False

    def __init__(self, run_name: str, root: str = "runs", **options: Any) -> None:
        """Log the project *run_name* below *root*."""
        super().__init__()
        options.setdefault("name", run_name)
        self.run = run_of(root, options)

    @property
    def tracker(self) -> TrainingRun:
        """The run."""
        return self.run

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Begin the run with its settings."""
        self.run.begin(values)

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Write *values*, numbers and texts."""
        del kwargs
        self.run.log(values, step=step)

    def finish(self) -> None:
        """End the run."""
        self.run.end()


register_tracker_class(ToyspecTracker)
