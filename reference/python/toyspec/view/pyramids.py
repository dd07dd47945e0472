"""A curve as buckets of equally many successive points, so that no spike is lost at any zoom, and how they are made."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from math import isfinite, nan
from operator import add
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from toyspec.core.engine import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    import toyspec_engine

    Places = tuple[Sequence[float], Sequence[float], Sequence[float] | None]
    """Steps, times and epochs; None where no point has an epoch."""

COLUMNS = ("step", "time", "epoch", "last", "min", "max", "mean", "nan", "offset", "line")
"""The columns of a curve, in their order."""

_PLACES = ("step", "time", "epoch")


class Buckets(NamedTuple):
    """A column has one value for each bucket.

    They are ``step``, ``time`` and ``epoch`` of its last point; ``last``, ``min``, ``max`` and ``mean`` of its finite
    values, NaN where it has none; ``nan``, the number of others; ``offset`` and ``line`` of a line at or before its
    first point.
    """

    columns: dict[str, array[float]]
    level: int
    """Number of points in a bucket."""
    tail: int
    """Number of points in the last bucket."""

    @property
    def number(self) -> int:
        """Number of buckets."""
        return len(self.columns["step"])

    @property
    def points(self) -> int:
        """Number of points in all buckets."""
        return (self.number - 1) * self.level + self.tail if self.number else 0

    def halved(self) -> Buckets:
        """Return half as many buckets, each of two of these; the last one may have fewer points."""
        count = self.number
        is_odd = count % 2 == 1
        whole = count - 1 if is_odd else count if self.tail == self.level else count - 2
        columns = self._pairs(whole)
        if is_odd:
            for name in COLUMNS:
                columns[name].append(self.columns[name][-1])
        elif whole < count:
            self._merge(columns, whole, self.tail)
        tail = self.tail if is_odd else self.level + self.tail
        return Buckets(columns, 2 * self.level, tail)

    def _pairs(self, whole: int) -> dict[str, array[float]]:
        """Return the columns of the first *whole* buckets, an even number of full ones, in pairs."""
        mine = {name: column[:whole] for name, column in self.columns.items()}
        columns = {name: mine[name][1::2] for name in (*_PLACES, "last", "nan")}
        columns |= {name: mine[name][::2] for name in ("offset", "line")}
        if self.level == 1:
            columns["min"], columns["max"], columns["mean"] = folded(mine["last"], 2)
        else:
            columns["min"], columns["max"] = folded(mine["min"], 2)[0], folded(mine["max"], 2)[1]
            columns["mean"] = folded(mine["mean"], 2)[2]
        if any(mine["nan"]):
            self._settle(columns, {at // 2 for at, points in enumerate(mine["nan"]) if points})
        if not isfinite(sum(columns["mean"])):
            self._settle(columns, {at for at, mean in enumerate(columns["mean"]) if not isfinite(mean)})
        return {name: columns[name] for name in COLUMNS}

    def _settle(self, columns: dict[str, array[float]], pairs: set[int]) -> None:
        """Put into *columns* those of *pairs*, which have a value or a sum that is not finite."""
        for at in pairs:
            for name, figure in self._merged(2 * at, self.level).items():
                columns[name][at] = figure

    def _merge(self, columns: dict[str, array[float]], at: int, second_points: int) -> None:
        """Add to *columns* the buckets *at* and the next one, which has *second_points*, as one."""
        for name, figure in self._merged(at, second_points).items():
            columns[name].append(figure)

    def _merged(self, at: int, second_points: int) -> dict[str, float]:
        """Return the buckets *at* and the next one, which has *second_points*, as one."""
        mine = self.columns
        first = self.level - mine["nan"][at]
        second = second_points - mine["nan"][at + 1]
        found = {name: mine[name][at + 1] for name in _PLACES}
        found["last"] = mine["last"][at + 1 if second else at]
        for name, choose in (("min", min), ("max", max)):
            figures = [mine[name][index] for index, points in ((at, first), (at + 1, second)) if points]
            found[name] = choose(figures) if figures else nan
        share = second / (first + second) if first + second else 0.0
        mean = mine["mean"][at] if not second else mine["mean"][at + 1] if not first else None
        found["mean"] = mine["mean"][at] * (1 - share) + mine["mean"][at + 1] * share if mean is None else mean
        found["nan"] = mine["nan"][at] + mine["nan"][at + 1]
        return found | {name: mine[name][at] for name in ("offset", "line")}

    def part(self, begin: int, end: int) -> Buckets:
        """Return the buckets from *begin* to *end*, which is left out."""
        tail = self.tail if end >= self.number else self.level
        return Buckets({name: column[begin:end] for name, column in self.columns.items()}, self.level, tail)

    def fitting(self, most: int) -> Buckets:
        """Return these buckets, halved until there are at most *most*."""
        found = self
        while found.number > max(most, 2):
            found = found.halved()
        return found


def folded(values: Sequence[float], level: int) -> tuple[array[float], array[float], array[float]]:
    """Return the lowest, the highest and the mean of each *level* successive *values*, added in pairs.

    Where a value or a sum is not finite the mean is not, and the others are of no use.
    """
    engine = native()
    if engine is not None:
        low, high, mean = engine.folded(array("d", values).tobytes(), level)
        return array("d", low), array("d", high), array("d", mean)
    lowest = highest = total = values
    for _ in range(level.bit_length() - 1):
        lowest = list(map(min, lowest[::2], lowest[1::2]))
        highest = list(map(max, highest[::2], highest[1::2]))
        total = list(map(add, total[::2], total[1::2]))
    return array("d", lowest), array("d", highest), array("d", [each / level for each in total])


def span(places: Sequence[float], low: float, high: float) -> tuple[int, int]:
    """Return where the buckets with *low* to *high* begin and end in ascending *places*, with one more on each side."""
    begin = bisect_left(places, low)
    end = bisect_left(places, high)
    return max(0, begin - 1), min(len(places), end + 2)


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

    def buckets(self) -> Buckets:
        """Return the buckets at this time, the open one last."""
        level, tail, columns = self.native.buckets()
        return Buckets({name: array("d", data) for name, data in zip(COLUMNS, columns, strict=True)}, level, tail)


AnyPyramid: TypeAlias = Pyramid | EnginePyramid


def new_pyramid(most: int = MOST_BUCKETS) -> AnyPyramid:
    """Return an empty pyramid of at most *most* buckets, in the compiled engine if there is one."""
    engine = native()
    return Pyramid(most) if engine is None else EnginePyramid(engine.Pyramid(most))
