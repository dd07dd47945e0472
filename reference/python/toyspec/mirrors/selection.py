"""Decides which points of a run are sent: a pure function of its records, so that every reading gives equal rows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.mirrors.rows import Point, SentAlert, SentRow, mark_of, points_of, row_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable

    from toyspec.mirrors.settings import Selecting
    from toyspec.reading.attempts import Attempts
    from toyspec.reading.records import Record

MOST_NAMES: Final = 10_000
"""Metrics with further names are not sent: memory is bounded, and services get slow long before."""
_BYTES_PER_MEGABYTE = 1_000_000
_INDEX_BITS = 20
KEPT = 6
"""Most points that are kept of one metric: first, last, smallest, largest, first and last null."""
SHORTEST_SECONDS = 10.0
_SECONDS = 60.0


class Selection:
    """The rows of one run, as its records come.

    *cuts* are the lines after which an open window ended early, because no record came for long. Points in *sent*, a
    sorted array of ``point_id``, are left out.
    """

    def __init__(self, select: Selecting, cuts: Collection[int] = (), sent: array[int] | None = None) -> None:
        self._select = select
        self._cuts = frozenset(cuts)
        self._sent = sent
        self._names: dict[str, bool] = {}
        self._alerts: Counter[tuple[str, str]] = Counter()
        self._window: Window | None = None
        self._last: dict[str, Point] = {}
        self._points_left = select.points
        self._bytes_left = None if select.megabytes is None else int(select.megabytes * _BYTES_PER_MEGABYTE)
        self.is_spent = False
        """Whether the budget of the whole run is used up."""

    @property
    def is_open(self) -> bool:
        """Whether points wait for the end of their window."""
        return bool(self._window)

    def start(self, settings: Any) -> bool:
        """Take the settings of the run; return False where they alone exceed the budget."""
        if self._bytes_left is not None:
            self._bytes_left -= _size(settings)
            self.is_spent = self._bytes_left < 0
        return not self.is_spent

    def take(self, record: Record, attempts: Attempts) -> list[SentRow]:
        """Return the rows that are due with *record* of a run with *attempts*."""
        found: list[SentRow] = []
        mark = mark_of(record)
        if mark is not None:
            found = [*self._close(), mark]
        elif record.kind == "alert":
            found = [self._alert(record)]
        points = [point for point in points_of(record, attempts, self._select) if self._is_wanted(point)]
        if points:
            found += self._place(points)
        if record.line in self._cuts:
            found += self.cut()
        return found

    def cut(self) -> list[SentRow]:
        """Return the rows of the open window, which ends."""
        return self._close()

    def finish(self) -> list[SentRow]:
        """Return the last rows of a run that has ended; of a spent budget, the last values as far as they fit."""
        rows = self._close()
        held, self._last = self._last, {}
        if not self.is_spent or not held:
            return rows
        return rows + [row for row in rows_of(held.values()) if self._pay(row, reserve=0)]

    def _alert(self, record: Record) -> SentRow:
        rule, level = (str(record.value.get(key)) for key in ("rule", "level"))
        # Memory is bounded, whatever the log names.
        rule = rule if (rule, level) in self._alerts or len(self._alerts) < MOST_NAMES else "others"
        self._alerts[rule, level] += 1
        alert = SentAlert(rule, level, self._alerts[rule, level])
        return SentRow(record.line, None, float(record.time or 0.0), {}, alert=alert)

    def _place(self, points: list[Point]) -> list[SentRow]:
        rate = self._select.points_per_minute
        if rate is None:
            return self._paid(rows_of(points))
        t = points[0].t
        found = self._close() if self._window is not None and self._window.ends_before(t, len(self._names)) else []
        if self._window is None:
            self._window = Window(t, rate)
        for point in points:
            self._window.add(point)
        return found

    def _close(self) -> list[SentRow]:
        window, self._window = self._window, None
        return self._paid(window.rows(len(self._names))) if window is not None else []

    def _paid(self, rows: list[SentRow]) -> list[SentRow]:
        """Return those of *rows* for which the budget has room, and note the last values of the others."""
        if self._points_left is None and self._bytes_left is None:
            return rows
        paid: list[SentRow] = []
        for row in rows:
            if not self.is_spent and self._pay(row, reserve=len(self._names)):
                paid.append(row)
                continue
            self.is_spent = True
            for index, (name, value) in zip(row.places, row.values.items(), strict=True):
                self._last[name] = Point(row.line, index, name, value, row.step, row.t)
        return paid

    def _pay(self, row: SentRow, *, reserve: int) -> bool:
        """Take the price of *row* from the budget; return False, and take nothing, where only *reserve* is left."""
        size = _size(row.values) if self._bytes_left is not None else 0
        points = len(row.values)
        if self._points_left is not None and points + reserve > self._points_left:
            return False
        if self._bytes_left is not None and size > self._bytes_left:
            return False
        if self._points_left is not None:
            self._points_left -= points
        if self._bytes_left is not None:
            self._bytes_left -= size
        return True

    def _is_wanted(self, point: Point) -> bool:
        wanted = self._names.get(point.name)
        if wanted is None:
            if len(self._names) >= MOST_NAMES or not self._matches(point.name):
                return False
            self._names[point.name] = wanted = True
        return self._sent is None or not _is_in(point_id(point.line, point.place), self._sent)

    def _matches(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._select.metrics)


def point_id(line: int, index: int) -> int:
    """Return a number that no other point of the stream has."""
    return line << _INDEX_BITS | index


def _is_in(value: int, values: array[int]) -> bool:
    at = bisect_left(values, value)
    return at < len(values) and values[at] == value


def _size(content: Any) -> int:
    return len(msgspec.json.encode(content, enc_hook=str))


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
