"""Splits buckets where a chart marks something, so that a report, which has no lines to look up, knows its place."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from itertools import pairwise
from math import isfinite, log10, nan
from typing import TYPE_CHECKING, NamedTuple, Protocol

from toyspec.core.generated.runs import SPIKE
from toyspec.view.buckets import COLUMNS, Buckets
from toyspec.view.pyramids import figures_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    Point = tuple[float, float, float, float]
    """Step, time, epoch and value."""

# The viewer has more conditions: see `charts/anomalies.ts`. To split what is not a spike there costs some bytes.
_SIDE, _FAR, _FEWEST = SPIKE["side"], SPIKE["far"], SPIKE["fewest"]
_LEAST = 1e-9
# Of a bucket, values that are not finite and nearer to each other than this share of it are marked as one stretch.
_NEAR = 1 / 8


class ReadAgain(Protocol):
    """A run whose stream can be read once more."""

    def points(self, names: Collection[str]) -> Iterator[tuple[str, Buckets]]:
        """See ``ScannedRun.points``."""


class SplitBuckets(NamedTuple):
    """Buckets of different numbers of points."""

    buckets: Buckets
    counts: array[float]
    """Number of points of each."""


def split_buckets(file: ReadAgain, curves: Mapping[str, Buckets]) -> dict[str, SplitBuckets]:
    """Return those of *curves*, by metric, in which something is marked, with each mark in a bucket of its own.

    A spike is a bucket of one point, and values that are not finite are apart from the others. The stream of *file* is
    read once more for that. A bucket whose points are not found again stays whole.
    """
    marked = {name: found for name, curve in curves.items() if curve.level > 1 and (found := _marked(curve))}
    if not marked:
        return {}
    pieces: dict[str, dict[int, list[_Piece]]] = {name: {} for name in marked}
    gathered = {name: _Gathered(curves[name], set(found)) for name, found in marked.items()}
    for name, points in file.points(marked.keys()):
        for bucket, own in gathered[name].take(points):
            pieces[name][bucket] = _pieces(own, marked[name][bucket], curves[name].level)
    return {name: _replaced(curves[name], found) for name, found in pieces.items()}


class _Marks(NamedTuple):
    """What of a bucket is to have a bucket of its own."""

    is_high: bool = False
    is_low: bool = False


class _Piece(NamedTuple):
    """Successive points of a bucket, by the columns of buckets."""

    columns: dict[str, float]
    points: int


def _marked(curve: Buckets) -> dict[int, _Marks]:
    """Return the buckets that may have a mark."""
    found = {}
    highs = _outstanding(curve.columns["max"])
    lows = _outstanding(array("d", [-value for value in curve.columns["min"]]), is_turned=True)
    partly = {at for at, count in enumerate(curve.columns["nan"]) if count and isfinite(curve.columns["min"][at])}
    for bucket in sorted(highs | lows | partly):
        found[bucket] = _Marks(bucket in highs, bucket in lows)
    return found


def _outstanding(tops: array[float], *, is_turned: bool = False) -> set[int]:
    """Return where *tops* are far above those around them, also on a logarithmic axis; *is_turned* says their sign."""
    found = set()
    around: list[float] = []
    for at in range(min(_SIDE, len(tops))):
        _enter(around, tops[at])
    for at, top in enumerate(tops):
        if at + _SIDE < len(tops):
            _enter(around, tops[at + _SIDE])
        if at > _SIDE:
            _leave(around, tops[at - _SIDE - 1])
        # The bucket itself is among those around it.
        is_far = len(around) > _FEWEST and top > around[len(around) // 2] and _is_far(top, around, is_turned=is_turned)
        if is_far and not _is_slope(tops, at):
            found.add(at)
    return found


def _is_slope(tops: array[float], at: int) -> bool:
    """Return whether half of the *tops* on one side of *at* are as high, or those beside an end of the curve rise.

    A loss that falls from its start has no spike there.
    """
    for side in (tops[max(0, at - _SIDE) : at], tops[at + 1 : at + _SIDE + 1]):
        known = sorted(filter(isfinite, side))
        if known and not tops[at] > known[(len(known) - 1) // 2]:
            return True
    for by in (1, -1):
        if not 0 <= at - by < len(tops) and 0 <= at + 2 * by < len(tops):
            three = [tops[at], tops[at + by], tops[at + 2 * by]]
            scales = [three, *([_powers(three)] if min(three) > 0 or max(three) < 0 else [])]
            if all(map(isfinite, three)) and not any(a - b > _FAR * abs(b - c) for a, b, c in scales):
                return True
    return False


def _powers(values: Sequence[float]) -> list[float]:
    """Return the places of *values*, all of one sign, on a logarithmic axis; those below 0 are turned around."""
    return [log10(value) if value > 0 else -log10(-value) for value in values]


def _enter(around: list[float], top: float) -> None:
    if isfinite(top):
        insort(around, top)


def _leave(around: list[float], top: float) -> None:
    if isfinite(top):
        del around[bisect_left(around, top)]


def _is_far(top: float, around: Sequence[float], *, is_turned: bool) -> bool:
    quarter, middle, upper = _quartiles(around)
    if top - middle > max(_FAR * (upper - quarter), _LEAST * abs(middle)):
        return True
    if is_turned:
        # What is at or below 0 is not on a logarithmic axis.
        around = around[: bisect_left(around, 0.0)]
        if not top < 0 or len(around) <= _FEWEST:
            return False
        quarter, middle, upper = _quartiles(around)
        return log10(-middle) - log10(-top) > _FAR * (log10(-quarter) - log10(-upper))
    around = around[bisect_right(around, 0.0) :]
    if not top > 0 or len(around) <= _FEWEST:
        return False
    quarter, middle, upper = _quartiles(around)
    return log10(top) - log10(middle) > _FAR * (log10(upper) - log10(quarter))


def _quartiles(around: Sequence[float]) -> tuple[float, float, float]:
    """Return the quartiles of ascending values without the last one."""
    last = len(around) - 2
    return around[last // 4], around[last // 2], around[3 * last // 4]


class _Gathered:
    """The points of some buckets of a curve, whose points come in parts."""

    def __init__(self, curve: Buckets, wanted: set[int]) -> None:
        self._curve = curve
        self._wanted = wanted
        self._done = 0
        self._points: list[Point] = []

    def take(self, points: Buckets) -> Iterator[tuple[int, list[Point]]]:
        """Take the next *points* in; yield each wanted bucket that is complete now, with its points."""
        level, total = self._curve.level, self._curve.points
        steps, times, epochs, values = (points.columns[name] for name in ("step", "time", "epoch", "last"))
        begin, end = self._done, min(self._done + points.number, total)
        self._done += points.number
        at = begin
        while at < end:
            bucket = at // level
            stop = min((bucket + 1) * level, end)
            if bucket in self._wanted:
                part = slice(at - begin, stop - begin)
                self._points += zip(steps[part], times[part], epochs[part], values[part], strict=True)
                if stop in ((bucket + 1) * level, total):
                    own, self._points = self._points, []
                    if self._is_same(bucket, own):
                        yield bucket, own
            at = stop

    def _is_same(self, bucket: int, points: Sequence[Point]) -> bool:
        """Return whether *points* are those that the bucket was made of: the stream may have changed since."""
        columns = self._curve.columns
        finite = [point[3] for point in points if isfinite(point[3])]
        if not finite or points[-1][0] != columns["step"][bucket]:
            return False
        extremes = columns["min"][bucket], columns["max"][bucket]
        return (min(finite), max(finite)) == extremes and len(points) - len(finite) == columns["nan"][bucket]


def _pieces(points: Sequence[Point], marks: _Marks, level: int) -> list[_Piece]:
    values = [point[3] for point in points]
    finite = [value for value in values if isfinite(value)]
    cuts = {0, len(points)}
    for is_marked, choose in ((marks.is_high, max), (marks.is_low, min)):
        if is_marked:
            place = values.index(choose(finite))
            cuts |= {place, place + 1}
    for begin, end in _missing(values, level):
        cuts |= {begin, end}
    ordered = sorted(cuts)
    return [_piece(points[begin:end]) for begin, end in pairwise(ordered)]


def _missing(values: Sequence[float], level: int) -> list[tuple[int, int]]:
    """Return where stretches of *values* that are not finite begin and end."""
    found: list[tuple[int, int]] = []
    for at, value in enumerate(values):
        if isfinite(value):
            continue
        if found and at - found[-1][1] <= _NEAR * level:
            found[-1] = found[-1][0], at + 1
        else:
            found.append((at, at + 1))
    return found


def _piece(points: Sequence[Point]) -> _Piece:
    step, time, epoch, _ = points[-1]
    last, low, high, mean, missing = figures_of([point[3] for point in points])
    columns = {"step": step, "time": time, "epoch": epoch, "last": last, "min": low, "max": high, "mean": mean}
    return _Piece(columns | {"nan": missing}, len(points))


def _replaced(curve: Buckets, pieces: Mapping[int, Sequence[_Piece]]) -> SplitBuckets:
    columns: dict[str, array[float]] = {name: array("d") for name in COLUMNS}
    counts = array("d")
    for bucket in range(curve.number):
        for piece in pieces.get(bucket, ()):
            for name, column in columns.items():
                column.append(piece.columns.get(name, nan))
            counts.append(piece.points)
        if bucket not in pieces:
            for name, column in columns.items():
                column.append(curve.columns[name][bucket])
            counts.append(curve.tail if bucket == curve.number - 1 else curve.level)
    return SplitBuckets(Buckets(columns, curve.level, int(counts[-1])), counts)
