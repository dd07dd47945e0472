"""A callback for Ray Tune and Train: ``RunConfig(callbacks=[ToyspecCallback()])``.

Written against ray 2.60. Each trial is a run of its own, and the experiment is their group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from ray.tune.logger import LoggerCallback

from toyspec.core.writing.run_ids import run_id_from
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Mapping

# What Ray adds to each result, and a run has elsewhere or needs not.
_LEFT_OUT = frozenset([
    "config", "date", "done", "experiment_tag", "hostname", "node_ip", "pid", "timestamp", "trial_id",
    "should_checkpoint",
])  # fmt: skip


class ToyspecCallback(LoggerCallback):
    """Writes one run for each trial, named after it; the options are those of RunOptions but the *run_id*."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        # Trials run elsewhere: the machine of the driver says nothing about them.
        self._options = RunOptions(root=root, **{"system_seconds": 0.0, **options})
        self._runs: dict[str, TrainingRun] = {}

    def log_trial_start(self, trial: Any) -> None:
        """Begin the run of a trial, or go on with it."""
        run_id = run_id_from(str(trial))
        group = self._options.group or getattr(trial, "experiment_dir_name", None)
        options = msgspec.structs.replace(self._options, run_id=run_id, group=group)
        run = self._runs[trial.trial_id] = TrainingRun(options, Start(config=trial.config or {}))
        run.begin()

    def log_trial_result(self, iteration: int, trial: Any, result: Mapping[str, Any]) -> None:
        """Write the numbers of a result; the step is the training iteration."""
        values = {name: value for name, value in result.items() if name not in _LEFT_OUT}
        step = int(result.get("training_iteration", iteration))
        if trial.trial_id not in self._runs:
            self.log_trial_start(trial)
        self._runs[trial.trial_id].log(values, step=step)

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """End the run of a trial."""
        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            run.end(reason="errored" if failed else "completed")
