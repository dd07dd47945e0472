"""Makes the buckets of a curve that grows, in bounded memory."""

from __future__ import annotations

from array import array
from itertools import repeat
from math import isfinite, isnan, nan
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from toyspec.engine import native
from toyspec.view.buckets import COLUMNS, Buckets, folded

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
        self._begin(place)
        if not self._open:
            self._open_at = at
        self._open.append((*place, value))
        if len(self._open) == self.level:
            self._close(self._open)
            self._open = []

    def add_all(self, places: Places, values: Sequence[float], at: tuple[int, int]) -> None:
        """Add many points: what ``add`` does, at once."""
        steps, times, epochs = places
        if not values:
            return
        self._begin((steps[0], times[0], nan if epochs is None else epochs[0]))
        done = 0
        while done < len(values):
            done = self._add_some(places, values, done, at)

    def _begin(self, place: tuple[float, float, float]) -> None:
        if not self.points:
            step, time, epoch = place
            self.first_places = float(step), time, epoch

    def _add_some(self, places: Places, values: Sequence[float], done: int, at: tuple[int, int]) -> int:
        """Add points from *done* on; return how many are done."""
        if self.level == 1:
            return self._add_raw(places, values, done, at)
        room = self._most - len(self.columns["step"])
        end = done if self._open else _finite_end(values, done, done + room * self.level)
        end -= (end - done) % self.level
        if end > done:
            self._add_buckets(places, values, (done, end), at)
            return end
        end = min(done + self.level - len(self._open), len(values))
        if not self._open:
            self._open_at = at
        steps, times, epochs = places
        some = epochs[done:end] if epochs is not None else [nan] * (end - done)
        self._open += zip(steps[done:end], times[done:end], some, values[done:end], strict=True)
        if len(self._open) == self.level:
            self._close(self._open)
            self._open = []
        return end

    def _add_buckets(self, places: Places, values: Sequence[float], span: tuple[int, int], at: tuple[int, int]) -> None:
        """Add whole buckets of finite points."""
        done, end = span
        steps, times, epochs = places
        level, columns = self.level, self.columns
        low, high, mean = folded(values[done:end], level)
        count = len(low)
        if not isfinite(sum(mean)):
            # Sums of the largest numbers are infinite, their means are not.
            inside = (values[at : at + level] for at in range(done, end, level))
            mean = array("d", [figures_of(each)[3] for each in inside])
        last = slice(done + level - 1, end, level)
        columns["step"].extend(array("d", steps[last]))
        columns["time"].extend(times[last])
        columns["epoch"].extend(_repeated(nan, count) if epochs is None else epochs[last])
        columns["last"].extend(values[last])
        columns["min"].extend(low)
        columns["max"].extend(high)
        columns["mean"].extend(mean)
        for name, figure in (("nan", 0.0), ("offset", float(at[0])), ("line", float(at[1]))):
            columns[name].extend(_repeated(figure, count))
        self.points += end - done
        self._halve_if_full()

    def _add_raw(self, places: Places, values: Sequence[float], done: int, at: tuple[int, int]) -> int:
        steps, times, epochs = places
        end = min(len(values), done + self._most - len(self.columns["step"]))
        count = end - done
        columns = self.columns
        columns["step"].extend(array("d", steps[done:end]))
        columns["time"].extend(times[done:end])
        columns["epoch"].extend(_repeated(nan, count) if epochs is None else epochs[done:end])
        finite = array("d", values[done:end])
        if isfinite(sum(finite)):
            columns["nan"].extend(_repeated(0.0, count))
        else:
            finite = array("d", [value if isfinite(value) else nan for value in finite])
            columns["nan"].extend(array("d", map(isnan, finite)))
        for name in ("last", "min", "max", "mean"):
            columns[name].extend(finite)
        columns["offset"].extend(_repeated(float(at[0]), count))
        columns["line"].extend(_repeated(float(at[1]), count))
        self.points += count
        self._halve_if_full()
        return end

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


def _repeated(figure: float, count: int) -> array[float]:
    return array("d", [figure]) * count


def _finite_end(values: Sequence[float], begin: int, most: int) -> int:
    """Return where the finite values from *begin* on end, *most* at the latest; *begin* where their sum is infinite."""
    end = min(len(values), most)
    if not isfinite(sum(values[begin:end])):
        end = next((at for at in range(begin, end) if not isfinite(values[at])), begin)
    return end if isfinite(sum(values[begin:end])) else begin


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
        steps, times, epochs = places
        for place in zip(steps, times, repeat(nan) if epochs is None else epochs, values, strict=False):
            self.native.add(place[:3], place[3], at)

    def buckets(self) -> Buckets:
        """Return the buckets at this time, the open one last."""
        level, tail, columns = self.native.buckets()
        return Buckets({name: array("d", data) for name, data in zip(COLUMNS, columns, strict=True)}, level, tail)


AnyPyramid: TypeAlias = Pyramid | EnginePyramid


def new_pyramid(most: int = MOST_BUCKETS) -> AnyPyramid:
    """Return an empty pyramid of at most *most* buckets, in the compiled engine if there is one."""
    engine = native()
    return Pyramid(most) if engine is None else EnginePyramid(engine.Pyramid(most))
