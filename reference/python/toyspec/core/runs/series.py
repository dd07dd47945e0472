"""One metric of a run at every step, in compact memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import islice
from math import isfinite
from operator import lt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_FINITE = float("nan")


class Series:
    """The values of one metric by step, in the order of steps; of a repeated step, the last value."""

    def __init__(self) -> None:
        self.steps = array("q")
        self._values = array("d")

    def add(self, step: int, value: float | None) -> None:
        """Take in the value at *step*, None where it was not finite."""
        at = len(self.steps) if not self.steps or step > self.steps[-1] else bisect_left(self.steps, step)
        if at < len(self.steps) and self.steps[at] == step:
            self._values[at] = _NOT_FINITE if value is None else value
            return
        self.steps.insert(at, step)
        self._values.insert(at, _NOT_FINITE if value is None else value)

    def add_all(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Take in the value at each of *steps*, NaN where it was not finite."""
        is_next = bool(steps) and (not self.steps or steps[0] > self.steps[-1])
        if is_next and all(map(lt, steps, islice(steps, 1, None))):
            self.steps.extend(steps)
            self._values.extend(values)
            return
        for step, value in zip(steps, values, strict=True):
            self.add(step, value if isfinite(value) else None)

    def has(self, step: int) -> bool:
        """Return whether there is a value at *step*, finite or not."""
        at = bisect_left(self.steps, step)
        return at < len(self.steps) and self.steps[at] == step

    def value(self, step: int) -> float | None:
        """Return the value at *step*, which must be there; None where it was not finite."""
        value = self._values[bisect_left(self.steps, step)]
        return value if value == value else None  # noqa: PLR0124 - NaN alone differs from itself


def common_steps(all_series: list[Series]) -> list[int]:
    """Return the steps at which every one of *all_series* has a value."""
    shortest, *others = sorted(all_series, key=lambda series: len(series.steps))
    return [step for step in shortest.steps if all(other.has(step) for other in others)]


def thinned(values: Sequence[tuple[Any, float]], most: int) -> list[tuple[Any, float]]:
    """Return at most *most* of *values*, 2 or more: of each of equal parts the lowest and the highest, in order.

    A value is a step and a number. What is not finite is there only in a part where nothing is finite.
    """
    if len(values) <= most:
        return list(values)
    parts = most // 2
    kept: set[int] = set()
    for part in range(parts):
        places = range(len(values) * part // parts, len(values) * (part + 1) // parts)
        finite = [at for at in places if isfinite(values[at][1])] or [places[0]]
        kept |= {best(finite, key=lambda at: values[at][1]) for best in (min, max)}
    return [values[at] for at in sorted(kept)]


def spread(steps: list[int], number: int) -> list[int]:
    """Return at most *number* of *steps*, evenly spread, of several the first and the last among them."""
    if len(steps) <= number:
        return steps
    return [steps[at * (len(steps) - 1) // max(number - 1, 1)] for at in range(number)]
