"""The run that another one is compared with."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.format.profiles import EVENTS_FILE
from toyspec.reading.reader import read
from toyspec.runs.run_log import RunLog
from toyspec.trainer.settings import SettingsError

if TYPE_CHECKING:
    from toyspec.reading.records import Record

PAR_FROM, PAR_TO = 0.99, 1.01
"""Bounds of the ratio of perplexities that is par, themselves included."""


class BaselineComparison(NamedTuple):
    """How a run compares with its baseline at a step."""

    verdict: Literal["ahead", "behind", "par", "abort"]
    loss_delta: float
    """Loss of the run minus that of the baseline."""
    ppl_ratio: float
    """Perplexity of the run divided by that of the baseline."""


class Losses(NamedTuple):
    """What a run had reached at a step."""

    evaluated: float | None
    """Loss on held-out text; None when there was no evaluation."""
    trained: float
    """Loss of the train step."""


class Baseline:
    """The losses of a run, step by step."""

    def __init__(self, path: str, evaluation: str) -> None:
        """Read the run in the directory *path* with its evals named *evaluation*.

        Raises StreamError if it is not a run or is damaged, and SettingsError when its run_start is invalid.
        """
        log = RunLog.open(path)
        if log.run_id is None or log.config.event is None:
            raise SettingsError(f"{path}: its run_start is invalid; see `toyspec check {path}`")
        self.run_id = log.run_id
        self._trained = {step: loss for step, loss in log.loss_by_step if loss is not None}
        self._evaluated: dict[int, float] = {}
        for record in read(os.path.join(path, EVENTS_FILE), profile="toy/v1", attempts="latest"):
            step, loss = _number(record, "step"), _number(record, "loss")
            if record.kind == "eval" and record.get("name") == evaluation and step is not None and loss is not None:
                self._evaluated[int(step)] = loss

    def compare(self, step: int, losses: Losses) -> BaselineComparison | None:
        """Return how *losses* compare at the train step *step*; None when the baseline has nothing there.

        Losses on held-out text are compared where both runs have them, else those of the train step. The verdict is
        abort when the run's loss is not finite: there is nothing left to compare.
        """
        own, other = losses.evaluated, self._evaluated.get(step)
        if own is None or other is None:
            own, other = losses.trained, self._trained.get(step)
        if not math.isfinite(own):
            return BaselineComparison("abort", math.nan, math.nan)
        if other is None:
            return None
        ratio = perplexity(own - other)
        if PAR_FROM <= ratio <= PAR_TO:
            return BaselineComparison("par", own - other, ratio)
        return BaselineComparison("ahead" if ratio < 1 else "behind", own - other, ratio)


def perplexity(loss: float) -> float:
    """Return exp(*loss*): infinite where it is too large, NaN of NaN."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def _number(record: Record, key: str) -> Any:
    value = record.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
