"""Logs a study of Optuna: ``study.optimize(objective, callbacks=[StudyCallback()])``.

Written against optuna 5.0. Each trial becomes a run of its own, and the study is their group. For curves inside a
trial, ``with trial_run(trial) as run: run.log({...}, step=n)`` in the objective.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.core.writing.run_ids import run_id_from
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.writing.events import Reason

_REASONS: dict[str, Reason] = {"COMPLETE": "completed", "PRUNED": "aborted", "FAIL": "errored"}


class StudyCallback:
    """Writes one run for each trial that ends; the options are those of RunOptions but the *run_id*."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        self._options = RunOptions(root=root, **{"system_seconds": 0.0, **options})

    def __call__(self, study: Any, trial: Any) -> None:
        """Write the run of a *trial*: its parameters, what it reported, and its value; one of trial_run has these."""
        if trial.user_attrs.get(_ATTRIBUTE):
            return
        options = _options_of_trial(self._options, study.study_name, trial.number)
        run = TrainingRun(options, Start(config=trial.params, exist="replace"))
        for step, value in sorted(trial.intermediate_values.items()):
            run.log({"intermediate": value}, step=step)
        _write_values(run, trial.values, study)
        run.end(reason=_REASONS.get(trial.state.name, "errored"))


_ATTRIBUTE = "toyspec_run_id"


@contextlib.contextmanager
def trial_run(trial: Any, root: str = "runs", **options: Any) -> Iterator[TrainingRun]:
    """Log the curves of one trial, from within the objective; a pruned trial ends as aborted."""
    given = _options_of_trial(
        RunOptions(root=root, **{"system_seconds": 0.0, **options}), trial.study.study_name, trial.number
    )
    # The run begins with its first value: by then the objective has suggested the parameters.
    run = TrainingRun(given, Start(config=_Parameters(trial), exist="replace"))
    trial.set_user_attr(_ATTRIBUTE, given.run_id)
    try:
        yield run
    except BaseException as error:
        run.end(reason="aborted" if type(error).__name__ == "TrialPruned" else None)
        raise
    run.end()


class _Parameters(Mapping[str, Any]):
    """The parameters of a trial at the moment when they are asked for."""

    def __init__(self, trial: Any) -> None:
        self._trial = trial

    def __getitem__(self, name: str) -> Any:
        return self._trial.params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._trial.params)

    def __len__(self) -> int:
        return len(self._trial.params)


def _options_of_trial(options: RunOptions, study: str, number: int) -> RunOptions:
    return msgspec.structs.replace(
        options, run_id=run_id_from(f"{study}-trial-{number:04d}"), group=options.group or study, name=f"trial {number}"
    )


def _write_values(run: TrainingRun, values: Any, study: Any) -> None:
    """Write the result, and which direction is better."""
    if not values:
        return
    names = list(getattr(study, "metric_names", None) or [f"value_{at}" for at in range(len(values))])
    if len(values) == 1 and not getattr(study, "metric_names", None):
        names = ["value"]
    for name, direction in zip(names, study.directions, strict=True):
        goal: Literal["min", "max"] = "min" if direction.name == "MINIMIZE" else "max"
        run.begin().define(name, goal=goal)
    run.log(dict(zip(names, values, strict=True)))
