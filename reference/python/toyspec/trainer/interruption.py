"""The state of a run that was interrupted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.reading.reader import read
from toyspec.trainer.settings import SettingsError, settings_of

if TYPE_CHECKING:
    from toyspec.core.reading.records import Record
    from toyspec.trainer.settings import TrainingSettings


class Interrupted(NamedTuple):
    """Facts from the stream of an interrupted run."""

    run_start: Record
    settings: TrainingSettings
    furthest_step: int
    """Largest number of a train step in it, over all attempts; 0 without one."""
    last_time: float
    """``t`` of its last record, in seconds."""


def interrupted_run(directory: str) -> Interrupted:
    """Return what there is to resume in *directory*.

    Raises SettingsError when the run has ended, has no run_start, or is not of `toyspec train`, and StreamError when
    its stream is missing or damaged.
    """
    path = os.path.join(directory, EVENTS_FILE)
    run_start, furthest_step, last_time = None, 0, 0.0
    for record in read(path, profile="toy/v1"):
        if record.kind == "run_start" and run_start is None:
            run_start = record
        elif record.kind == "run_end":
            raise SettingsError(
                f"{path}: the run has ended: {record.get('reason')}; it cannot be resumed; start a new run"
            )
        elif record.kind == "step":
            furthest_step = max(furthest_step, _number(record, "step", 0))
        last_time = _number(record, "t", last_time)
    if run_start is None:
        raise SettingsError(f"{path}: no run_start; start the run again without --resume")
    try:
        return Interrupted(run_start, settings_of(run_start.value), furthest_step, last_time)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def _number(record: Record, key: str, otherwise: Any) -> Any:
    value = record.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else otherwise
