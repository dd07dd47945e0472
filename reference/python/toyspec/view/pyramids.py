"""Makes the buckets of a curve that grows, in bounded memory."""

from __future__ import annotations

from array import array
from itertools import repeat
from math import isfinite, nan
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from toyspec.core.engine import native
from toyspec.view.buckets import COLUMNS, Buckets

if TYPE_CHECKING:
    from collections.abc import Sequence

    import toyspec_engine

    Places = tuple[Sequence[float], Sequence[float], Sequence[float] | None]
    """Steps, times and epochs; None where no point has an epoch."""

MOST_BUCKETS = 2048
"""The largest number of buckets of a curve that is kept."""


class Pyramid:
    """Points in the order of the stream, as at most *most* buckets, an even number; the last bucket may be open."""

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self._most = most
        self.level = 1
        """Number of points in a bucket: a power of two."""
        self.points = 0
        self.columns: dict[str, array[float]] = {name: array("d") for name in COLUMNS}
        self.first_places: tuple[float, float, float] = (nan, nan, nan)
        """Step, time and epoch of the first point."""
        self._open: list[tuple[float, float, float, float]] = []
        self._open_at = (0.0, 0.0)

    def add(self, place: tuple[float, float, float], value: float, at: tuple[int, int]) -> None:
        """Add a point at *place*: step, time and epoch, NaN where unknown; *at* are offset and line."""
        if not self.points and not self._open:
            self.first_places = float(place[0]), *place[1:]
        if not self._open:
            self._open_at = at
        self._open.append((*place, value))
        if len(self._open) == self.level:
            self._close(self._open)
            self._open = []

    def add_all(self, places: Places, values: Sequence[float], at: tuple[int, int]) -> None:
        """Add many points: what ``add`` does for each."""
        _add_each(self, places, values, at)

    def _close(self, points: list[tuple[float, float, float, float]]) -> None:
        bucket = (*points[-1][:3], *figures_of([point[3] for point in points]), *self._open_at)
        for column, figure in zip(self.columns.values(), bucket, strict=True):
            column.append(figure)
        self.points += len(points)
        self._halve_if_full()

    def _halve_if_full(self) -> None:
        if len(self.columns["step"]) >= self._most:
            halved = Buckets(self.columns, self.level, self.level).halved()
            self.columns, self.level = halved.columns, halved.level

    def buckets(self) -> Buckets:
        """Return the buckets at this time, the open one last."""
        if not self._open:
            return Buckets(self.columns, self.level, self.level)
        bucket = (*self._open[-1][:3], *figures_of([point[3] for point in self._open]), *self._open_at)
        named = zip(self.columns.items(), bucket, strict=True)
        return Buckets(
            {name: column + array("d", [figure]) for (name, column), figure in named}, self.level, len(self._open)
        )


def figures_of(values: Sequence[float]) -> tuple[float, float, float, float, float]:
    """Return last, lowest, highest and mean of the finite *values*, and the number of others."""
    total = _total(values)
    if isfinite(total):
        return values[-1], min(values), max(values), total / len(values), 0.0
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return nan, nan, nan, nan, float(len(values))
    # The sum of the largest numbers is infinite, their mean is not.
    mean = _total([value / len(finite) for value in finite])
    return finite[-1], min(finite), max(finite), mean, float(len(values) - len(finite))


def _total(values: Sequence[float]) -> float:
    """Return the sum of *values*, added in pairs: it does not depend on how many came at once."""
    while len(values) > 1:
        last = values[-1:] if len(values) % 2 else ()
        values = [*map(add, values[::2], values[1::2]), *last]
    return values[0]


class EnginePyramid:
    """A ``Pyramid`` in the compiled engine."""

    def __init__(self, native: toyspec_engine.Pyramid) -> None:
        self.native = native
        """That of the engine."""

    @property
    def first_places(self) -> tuple[float, float, float]:
        """Step, time and epoch of the first point."""
        return self.native.first_places

    def add(self, place: tuple[float, float, float], value: float, at: tuple[int, int]) -> None:
        """Add a point at *place*: step, time and epoch, NaN where unknown; *at* are offset and line."""
        self.native.add(place, value, at)

    def add_all(self, places: Places, values: Sequence[float], at: tuple[int, int]) -> None:
        """Add many points, one by one: blocks of the engine are taken by ``native``."""
        _add_each(self, places, values, at)

    def buckets(self) -> Buckets:
        """Return the buckets at this time, the open one last."""
        level, tail, columns = self.native.buckets()
        return Buckets({name: array("d", data) for name, data in zip(COLUMNS, columns, strict=True)}, level, tail)


AnyPyramid: TypeAlias = Pyramid | EnginePyramid


def _add_each(pyramid: AnyPyramid, places: Places, values: Sequence[float], at: tuple[int, int]) -> None:
    steps, times, epochs = places
    for step, time, epoch, value in zip(steps, times, repeat(nan) if epochs is None else epochs, values, strict=False):
        pyramid.add((step, time, epoch), value, at)


def new_pyramid(most: int = MOST_BUCKETS) -> AnyPyramid:
    """Return an empty pyramid of at most *most* buckets, in the compiled engine if there is one."""
    engine = native()
    return Pyramid(most) if engine is None else EnginePyramid(engine.Pyramid(most))
