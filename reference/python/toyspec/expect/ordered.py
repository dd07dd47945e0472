"""The values of a metric in the order of steps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.runs.history import PlacedCurve


class Ordered(NamedTuple):
    """The values of a curve in the order of steps; those of one step are in the order of the log."""

    steps: Sequence[int | float]
    values: Sequence[Any]
    order: Sequence[int] | None = None
    """Where each value is in the curve; None if that is in order."""
    curve: PlacedCurve | None = None

    def place_of(self, at: int) -> int:
        """Return where a value is in the curve."""
        return at if self.order is None else self.order[at]

    def within(self, first: float, last: float) -> Sequence[Any]:
        """Return the values from step *first* to *last*."""
        return self.values[bisect_left(self.steps, first) : bisect_right(self.steps, last)]

    def line_from(self, step: float) -> int | None:
        """Return the line of the first value from *step* on; None without one."""
        at = bisect_left(self.steps, step)
        return abs(self.curve.line_of(self.place_of(at))) if self.curve and at < len(self.steps) else None


def ordered(curve: PlacedCurve | None) -> Ordered:
    """Return the values of *curve*; none without one."""
    if curve is None:
        return Ordered((), ())
    steps, values = curve.steps, curve.values
    if all(map(le, steps, islice(steps, 1, None))):
        return Ordered(steps, values, None, curve)
    order = sorted(range(len(steps)), key=steps.__getitem__)
    return Ordered([steps[at] for at in order], [values[at] for at in order], order, curve)
