"""A series of numbers: its shape in bounded memory, and those of its values that are shown."""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from math import isfinite, isnan
from operator import add
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.engine import native
from toyspec.core.kaun.scalars import lateness

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence


_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=+*#@"
_CROSS = {"unicode": "\N{MULTIPLICATION SIGN}", "ascii": "x"}


_FEW = 64


class Curve:
    """Keeps the first, last, lowest and highest value of a series, and means of equal parts of it."""

    def __init__(self, parts: int = 32) -> None:
        """Keep between *parts* and twice as many means; *parts* is even, and 0 for none."""
        self.first: tuple[int, float | None] | None = None
        self.last: tuple[int, float | None] | None = None
        self.last_finite: float | None = None
        """The last value that was finite."""
        self.lowest: tuple[int, float] | None = None
        self.highest: tuple[int, float] | None = None
        self.count = 0
        """Number of values, those that were not finite included."""
        self.not_finite = 0
        """Number of values that were null, because they were not finite."""
        self._limit = 2 * parts
        self._share = 1
        self._means: list[float | None] = []
        self._open: list[float] = []
        self._taken = 0

    def add(self, step: int, value: float | None) -> None:
        """Add the value at *step*, None if it was not finite."""
        self.count += 1
        self.first = self.first or (step, value)
        self.last = (step, value)
        if value is None:
            self.not_finite += 1
        else:
            self.last_finite = value
            if self._limit:
                self._open.append(value)
            if self.lowest is None or value < self.lowest[1]:
                self.lowest = (step, value)
            if self.highest is None or value > self.highest[1]:
                self.highest = (step, value)
        self._taken += 1
        if self._limit and self._taken == self._share:
            self._close()

    def add_all(self, steps: Sequence[int], values: array[float]) -> None:
        """Add the value at each of *steps*, NaN where it was not finite: what ``add`` does, at once."""
        if not steps:
            return
        ends = _extremes(values)
        if ends is None:
            begin = 0
            for at in [at for at, value in enumerate(values) if isnan(value)]:
                self.add_all(steps[begin:at], values[begin:at])
                self.add(steps[at], None)
                begin = at + 1
            self.add_all(steps[begin:], values[begin:])
            return
        self.count += len(steps)
        self.first = self.first or (steps[0], values[0])
        self.last = (steps[-1], values[-1])
        self.last_finite = values[-1]
        least, most = (values[at] for at in ends)
        if self.lowest is None or least < self.lowest[1]:
            self.lowest = (steps[ends[0]], least)
        if self.highest is None or most > self.highest[1]:
            self.highest = (steps[ends[1]], most)
        at = 0
        while self._limit and at < len(values):
            whole = 0 if self._taken else min((len(values) - at) // self._share, self._limit - len(self._means))
            if whole:
                end = at + whole * self._share
                self._close_all(values[at:end])
                at = end
                continue
            end = at + self._share - self._taken
            self._open.extend(values[at:end])
            self._taken += len(values[at:end])
            at = end
            if self._taken == self._share:
                self._close()

    def means(self, most: int | None = None) -> list[float | None]:
        """Return the mean of each part in order, None where nothing was finite; of *most* parts at most."""
        means = [*self._means, _mean(self._open)] if self._taken else list(self._means)
        while most is not None and len(means) > max(most, 1):
            means = _halved(means)
        return means

    def line(self, most: int, signs: Literal["unicode", "ascii"] = "unicode") -> str:
        """Return the shape in *most* characters; empty where all values are one number, which needs no picture."""
        lowest, highest = self.lowest, self.highest
        is_flat = not self.not_finite and lowest is not None and highest is not None and lowest[1] == highest[1]
        return "" if is_flat else sparkline(self.means(most), signs)

    def _close(self) -> None:
        self._means.append(_mean(self._open) if len(self._open) != 1 else self._open[0])
        self._open, self._taken = [], 0
        self._fold()

    def _close_all(self, values: array[float]) -> None:
        """Take in the means of whole parts of *values*, which are finite and no more than there is room for."""
        size = self._share
        parts = values if size == 1 else [_mean(values[at : at + size]) for at in range(0, len(values), size)]
        self._means.extend(parts)
        self._fold()

    def _fold(self) -> None:
        if len(self._means) == self._limit:
            self._means = _halved(self._means)
            self._share *= 2


class TagCurve(Curve):
    """A ``Curve`` of a tag of kaun/v1: its last value is that of the latest scalar, wherever it is in the stream."""

    def __init__(self, parts: int = 32) -> None:
        """See Curve."""
        super().__init__(parts)
        self._latest: tuple[tuple[int, int], float | None] | None = None
        self._latest_finite: tuple[tuple[int, int], float] | None = None

    def add(self, step: int, value: float | None, epoch: float | None = None) -> None:
        """Add the value at *step* and *epoch*, None if it was not finite."""
        super().add(step, value)
        self._keep_latest(step, value, epoch)

    def add_all(self, steps: Sequence[int], values: array[float], epochs: Sequence[float] | None = None) -> None:
        """Add the value at each of *steps* and *epochs*, NaN where it was not finite: what ``add`` does, at once."""
        if any(map(isnan, values)):
            for step, value, epoch in zip(steps, values, epochs or repeat(None), strict=False):
                self.add(step, None if isnan(value) else value, epoch)
        elif steps:
            super().add_all(steps, values)
            top = max(steps)
            at = steps.index(top)
            if epochs is not None and steps.count(top) > 1:
                at = max((at for at, step in enumerate(steps) if step == top), key=lambda at: lateness(top, epochs[at]))
            self._keep_latest(top, values[at], None if epochs is None else epochs[at])

    def _keep_latest(self, step: int, value: float | None, epoch: float | None) -> None:
        order = lateness(step, epoch)
        if self._latest is None or order > self._latest[0]:
            self._latest = order, value
        if value is not None and (self._latest_finite is None or order > self._latest_finite[0]):
            self._latest_finite = order, value
        self.last = self._latest[0][0], self._latest[1]
        self.last_finite = None if self._latest_finite is None else self._latest_finite[1]


def metric_texts(curve: Curve, best: tuple[int, float] | None, most: int) -> tuple[str, str, str]:
    """Return the last value, the *best* with its step, and the shape in *most* characters, as a table has them."""
    last = curve.last and curve.last[1]
    return (
        "not finite" if last is None else f"{last:.6g}",
        "" if best is None else f"{best[1]:.6g} at {best[0]}",
        curve.line(most),
    )


def sparkline(values: list[float | None], signs: Literal["unicode", "ascii"]) -> str:
    """Return one character for each value, higher for larger ones; a cross where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    steps = _BLOCKS if signs == "unicode" else _ASCII
    low, high = min(known), max(known)
    # Halves keep the span of the largest numbers finite.
    span = high / 2 - low / 2

    def sign(value: float | None) -> str:
        if value is None:
            return _CROSS[signs]
        level = (value / 2 - low / 2) / span if span > 0 else 0.0
        return steps[min(int(level * len(steps)), len(steps) - 1)]

    return "".join(map(sign, values))


def _extremes(values: array[float]) -> tuple[int, int] | None:
    """Return where the first lowest and the first highest of *values* are, which are finite or NaN; None for NaN."""
    # To ask the engine takes longer than to look at few.
    engine = native() if len(values) > _FEW else None
    if engine is not None:
        found: tuple[int, int] | None = engine.extremes(values.tobytes())
        return found
    if any(map(isnan, (values[0], values[-1], sum(values)))):
        return None
    return values.index(min(values)), values.index(max(values))


def _halved(means: list[float | None]) -> list[float | None]:
    with suppress(TypeError):  # None is where nothing was finite
        sums = list(map(add, means[::2], means[1::2]))
        if len(means) % 2 == 0 and all(map(isfinite, sums)):
            return [total / 2 for total in sums]
    pairs = (means[at : at + 2] for at in range(0, len(means), 2))
    return [_mean([value for value in pair if value is not None]) for pair in pairs]


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    total = sum(values)
    # The sum of the largest numbers is infinite, their mean is not.
    return total / len(values) if isfinite(total) else sum(value / len(values) for value in values)


def common_steps(all_points: Sequence[Mapping[int, object]]) -> list[int]:
    """Return the steps at which every one of *all_points*, values by step, has a value, in order."""
    return sorted(set.intersection(*map(set, all_points)))


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
