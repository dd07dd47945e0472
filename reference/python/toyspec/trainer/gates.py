"""Quality gates: a bound for a result of the run, checked at its end, for example ``loss_ratio<0.9``."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from toyspec.core.errors import ToyspecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

METRICS = {
    "loss": "loss of the last step",
    "ppl": "perplexity of the last step",
    "loss_ratio": "loss of the last step divided by that of the first",
    "eval_loss": "loss of the last evaluation",
    "eval_ppl": "perplexity of the last evaluation",
    "ppl_ratio": "perplexity divided by the baseline's, as in the last compare event",
}
"""The metrics of gates, and their meanings."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_GATE = re.compile(r"\s*([a-z_]+)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")


class GateError(ToyspecError, ValueError):
    """The text is not a gate."""


class GateVerdict(NamedTuple):
    """The result of a gate."""

    passed: bool
    value: float | None
    """Value of the metric; None when it is not finite or there is none."""


class Gate(NamedTuple):
    """A condition on the result of a run."""

    metric: str
    comparison: str
    threshold: float

    @classmethod
    def parsed(cls, text: str) -> Gate:
        """Return the gate in *text*; raise GateError if it is not one."""
        found = _GATE.fullmatch(text)
        if not found:
            raise GateError(f"{text!r} is not a condition; write METRIC<BOUND, for example 'loss_ratio<0.9'")
        metric, comparison, bound = found.groups()
        if metric not in METRICS:
            raise GateError(f"unknown metric {metric!r}; use one of {', '.join(METRICS)}")
        try:
            threshold = float(bound)
        except ValueError:
            threshold = math.nan
        if not math.isfinite(threshold):
            raise GateError(f"bound {bound!r} must be a finite number")
        return cls(metric, comparison, threshold)

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.threshold!r}"

    def check(self, results: Mapping[str, float]) -> GateVerdict:
        """Return whether *results* pass; a value that is missing or not finite does not."""
        value = results.get(self.metric, math.nan)
        if not math.isfinite(value):
            return GateVerdict(False, None)
        return GateVerdict(_COMPARISONS[self.comparison](value, self.threshold), value)
