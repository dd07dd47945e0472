"""Thins the points of a stretch of a run: what a curve must not lose stays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toyspec.mirrors.rows import Point, SentRow, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT = 6
"""Most points that are kept of one metric: first, last, smallest, largest, first and last null."""

SHORTEST_SECONDS = 10.0
_SECONDS = 60.0


class Window:
    """The points of one stretch, at most *per_minute* for each minute of it, in bounded memory."""

    def __init__(self, start: float, per_minute: int) -> None:
        self._start = start
        self._rate = per_minute / _SECONDS
        self._points: dict[str, list[Point]] = {}

    def __bool__(self) -> bool:
        return bool(self._points)

    def ends_before(self, t: float, names: int) -> bool:
        """Return whether the window is over at *t*; it lasts as long as *names* metrics need to keep their points."""
        return t >= self._start + max(SHORTEST_SECONDS, names * KEPT / self._rate)

    def add(self, point: Point) -> None:
        """Take in a point."""
        held = self._points.setdefault(point.name, [])
        held.append(point)
        share = self._share(len(self._points))
        if len(held) > 4 * share:
            self._points[point.name] = thinned(held, share)

    def rows(self, names: int) -> list[SentRow]:
        """Return what is kept, in the order of the stream; *names* is the number of metrics of the run so far."""
        share = self._share(names)
        total = sum(map(len, self._points.values()))
        fits = total <= share * names
        kept = [point for held in self._points.values() for point in (held if fits else thinned(held, share))]
        return rows_of(kept)

    def _share(self, names: int) -> int:
        """Return the number of points that each of *names* metrics may have; enough for what must be kept."""
        seconds = max(SHORTEST_SECONDS, names * KEPT / self._rate)
        return max(KEPT, int(seconds * self._rate) // max(1, names))


def rows_of(points: Iterable[Point]) -> list[SentRow]:
    """Return the rows of *points*, one for each record, in the order of the stream."""
    by_line: dict[int, list[Point]] = {}
    for point in sorted(points):
        by_line.setdefault(point.line, []).append(point)
    return [row_of(found) for found in by_line.values()]


def thinned(points: list[Point], most: int) -> list[Point]:
    """Return at most *most* of *points*, at least KEPT: the extremes of pieces of equal length."""
    pieces = max(1, most // KEPT)
    found: list[Point] = []
    for piece in range(pieces):
        part = points[piece * len(points) // pieces : (piece + 1) * len(points) // pieces]
        found += _extremes(part)
    return found


def _extremes(points: list[Point]) -> list[Point]:
    if len(points) <= KEPT:
        return points
    numbers = [point for point in points if isinstance(point.value, int | float) and math.isfinite(point.value)]
    nulls = [point for point in points if point.value is None or point.value != point.value]
    kept = [points[0], points[-1], *nulls[:1], *nulls[-1:]]
    if numbers:
        kept += [min(numbers, key=_value), max(numbers, key=_value)]
    return sorted({(point.line, point.place): point for point in kept}.values())


def _value(point: Point) -> float:
    assert isinstance(point.value, int | float), "only numbers are compared"
    return point.value
