"""What training reads from the logs of earlier runs: the baseline to compare with, and the run to resume."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.reading.reader import read
from toyspec.trainer.settings import SettingsError, settings_of

if TYPE_CHECKING:
    from toyspec.core.reading.records import Record
    from toyspec.trainer.settings import TrainingSettings


PAR_FROM, PAR_TO = 0.99, 1.01
"""Bounds of the ratio of perplexities that is par, themselves included."""


class BaselineComparison(NamedTuple):
    """How a run compares with its baseline at a step."""

    verdict: Literal["ahead", "behind", "par", "abort"]
    loss_delta: float
    """Loss of the run minus that of the baseline."""
    ppl_ratio: float
    """Perplexity of the run divided by that of the baseline."""


class Baseline:
    """The losses of a run, step by step."""

    def __init__(self, path: str, evaluation: str) -> None:
        """Read the run in the directory *path* with its evals named *evaluation*.

        Raises StreamError if it is not a run or is damaged, and SettingsError when its run_start is invalid.
        """
        start: Record | None = None
        self._trained: dict[int, float] = {}
        self._evaluated: dict[int, float] = {}
        for record in read(os.path.join(path, EVENTS_FILE), profile="toy/v1", attempts="latest"):
            start = record if record.kind == "run_start" and start is None else start
            step, loss = _number(record, "step"), _number(record, "loss")
            if step is None or loss is None:
                continue
            if record.kind == "eval" and record.get("name") == evaluation:
                self._evaluated[int(step)] = loss
            elif record.kind == "step" and record.get("phase", _phase(start)) == _phase(start):
                self._trained[int(step)] = loss
        run_id = None if start is None or start.event is None else start.get("run_id")
        if not isinstance(run_id, str):
            raise SettingsError(f"{path}: its run_start is missing or invalid; see `toyspec check {path}`")
        self.run_id = run_id

    def compare(self, step: int, evaluated: float | None, trained: float) -> BaselineComparison | None:
        """Return how a run compares at the train step *step*; None when the baseline has nothing there.

        *evaluated* is its loss on held-out text, None without an evaluation; *trained* is that of the train step.

        Losses on held-out text are compared where both runs have them, else those of the train step. The verdict is
        abort when the run's loss is not finite: there is nothing left to compare.
        """
        own, other = evaluated, self._evaluated.get(step)
        if own is None or other is None:
            own, other = trained, self._trained.get(step)
        if not math.isfinite(own):
            return BaselineComparison("abort", math.nan, math.nan)
        if other is None:
            return None
        ratio = perplexity(own - other)
        if PAR_FROM <= ratio <= PAR_TO:
            return BaselineComparison("par", own - other, ratio)
        return BaselineComparison("ahead" if ratio < 1 else "behind", own - other, ratio)


def _phase(start: Record | None) -> object:
    """Return the phase of the run whose losses count."""
    return "train" if start is None else start.get("phase", "train")


def perplexity(loss: float) -> float:
    """Return exp(*loss*): infinite where it is too large, NaN of NaN."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _number(record: Record, key: str, otherwise: Any = None) -> Any:
    value = record.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


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
