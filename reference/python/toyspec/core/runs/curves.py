"""A series of numbers: its shape in bounded memory, and those of its values that are shown."""

from __future__ import annotations

from math import isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from toyspec.core.format.numbers import finite_number
from toyspec.core.kaun.scalars import lateness

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Sequence

    from toyspec.core.reading.step_blocks import Column


_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=+*#@"
_CROSS = {"unicode": "\N{MULTIPLICATION SIGN}", "ascii": "x"}


class Extremes(NamedTuple):
    """What successive values come to; NaN is one that was not finite. Each value is after its step."""

    number: int
    not_finite: int
    first: tuple[int, float]
    last: tuple[int, float]
    last_finite: float | None
    lowest: tuple[int, float] | None
    """The first of the lowest values; None where none was finite."""
    highest: tuple[int, float] | None
    """The first of the highest values."""


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

    def add(self, step: int, value: float | None, _: float | None = None) -> None:
        """Add the value at *step*, None if it was not finite; a ``TagCurve`` needs the epoch too."""
        number = value if type(value) is float and isfinite(value) else finite_number(value)
        known = None if number is None else (step, number)
        place = known or (step, nan)
        self.merge(Extremes(1, number is None, place, place, number, known, known))
        self.draw((place[1],))

    def add_all(self, steps: Sequence[int], values: array[float]) -> None:
        """Add finite *values*, at least one, each at one of *steps*: what ``add`` does, at once."""
        first, last = (steps[0], values[0]), (steps[-1], values[-1])
        lowest, highest = ((steps[values.index(value)], value) for value in (min(values), max(values)))
        self.merge(Extremes(len(values), 0, first, last, values[-1], lowest, highest))
        self.draw(values)

    def draw(self, values: Sequence[float]) -> None:
        """Add *values* to the shape alone; NaN is one that was not finite."""
        at = 0
        while self._limit and at < len(values):
            part = values[at : at + self._share - len(self._open)]
            self._open.extend(part)
            at += len(part)
            if len(self._open) == self._share:
                self._close()

    def merge(self, found: Extremes) -> None:
        """Add values of which no more than *found* is known, and not their shape."""
        self.count += found.number
        self.not_finite += found.not_finite
        self.first = self.first or _known(found.first)
        self.last = _known(found.last)
        self.last_finite = self.last_finite if found.last_finite is None else found.last_finite
        if found.lowest is not None and (self.lowest is None or found.lowest[1] < self.lowest[1]):
            self.lowest = found.lowest
        if found.highest is not None and (self.highest is None or found.highest[1] > self.highest[1]):
            self.highest = found.highest

    def means(self, most: int | None = None) -> list[float | None]:
        """Return the mean of each part in order, None where nothing was finite; of *most* parts at most."""
        means = [*self._means, _mean(self._open)] if self._open else list(self._means)
        while most is not None and len(means) > max(most, 1):
            means = _halved(means)
        return means

    def line(self, most: int, signs: Literal["unicode", "ascii"] = "unicode") -> str:
        """Return the shape in *most* characters; empty where all values are one number, which needs no picture."""
        return "" if self._is_flat else sparkline(self.means(most), signs)

    @property
    def is_constant(self) -> bool:
        """Whether there are several values, all finite and the same."""
        return self.count > 1 and self._is_flat

    @property
    def _is_flat(self) -> bool:
        lowest, highest = self.lowest, self.highest
        return not self.not_finite and lowest is not None and highest is not None and lowest[1] == highest[1]

    def _close(self) -> None:
        self._means.append(_mean(self._open))
        self._open = []
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
        self._keep_latest(step, finite_number(value), epoch)

    def keep_latest(self, column: Column) -> None:
        """Take in which value of *column*, which was merged, is the latest."""
        steps, values, _, epochs = column
        places: Iterable[int] = range(len(steps))
        if not any(map(isnan, values)):
            top = max(steps)
            places = [steps.index(top)] if epochs is None else (at for at in places if steps[at] == top)
        for at in places:
            self._keep_latest(steps[at], finite_number(values[at]), None if epochs is None else epochs[at])

    def _keep_latest(self, step: int, value: float | None, epoch: float | None) -> None:
        order = lateness(step, epoch)
        if self._latest is None or order > self._latest[0]:
            self._latest = order, value
        if value is not None and (self._latest_finite is None or order > self._latest_finite[0]):
            self._latest_finite = order, value
        self.last = self._latest[0][0], self._latest[1]
        self.last_finite = None if self._latest_finite is None else self._latest_finite[1]


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


def _known(point: tuple[int, float]) -> tuple[int, float | None]:
    step, value = point
    return step, None if isnan(value) else value


def _halved(means: list[float | None]) -> list[float | None]:
    pairs = (means[at : at + 2] for at in range(0, len(means), 2))
    return [_mean([value for value in pair if value is not None]) for pair in pairs]


def _mean(values: Iterable[float]) -> float | None:
    """Return the mean of those of *values* that are finite; None without one."""
    known = list(filter(isfinite, values))
    if not known:
        return None
    total = sum(known)
    # The sum of the largest numbers is infinite, their mean is not.
    return total / len(known) if isfinite(total) else sum(value / len(known) for value in known)


Point = TypeVar("Point", bound="tuple[Any, ...]")


def thinned(values: Sequence[Point], most: int) -> list[Point]:
    """Return at most *most* of *values*, 2 or more: of each of equal parts the lowest and the highest, in order.

    A value is a step, a number, and what else belongs to it. What is not finite is there only in a part where nothing
    is finite.
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
