"""Decides which points of a run are sent: a pure function of its records, so that every reading gives equal rows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from toyspec.convert.run_items import Item, ItemRow, items_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable

    from toyspec.convert.mirrors.settings import Selecting
    from toyspec.core.reading.attempts import Attempts
    from toyspec.core.reading.records import Record

MOST_NAMES: Final = 10_000
"""Metrics with further names are not sent: memory is bounded, and services get slow long before."""
_POINTS: Final = frozenset(["measure", "text", "histogram", "media"])
"""What has a name, and a budget."""
_BOUNDS: Final = frozenset(["definition", "resume", "end"])
_BYTES_PER_MEGABYTE = 1_000_000
_INDEX_BITS = 20
KEPT = 6
"""Most points that are kept of one metric: first, last, smallest, largest, first and last null."""
SHORTEST_SECONDS = 10.0
_SECONDS = 60.0


class Point(NamedTuple):
    """An item that may be sent, by the name that it is sent with."""

    place: int
    """Place among the items of its record, counted from 0."""
    item: Item
    record: Record


class Selection:
    """The rows of one run, as its records come.

    *cuts* are the lines after which an open window ended early, because no record came for long. Items in *sent*, a
    sorted array of ``item_id``, are left out.
    """

    def __init__(self, select: Selecting, cuts: Collection[int] = (), sent: array[int] | None = None) -> None:
        self._select = select
        self._cuts = frozenset(cuts)
        self._sent = sent
        self._names: set[str] = set()
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
            self._bytes_left -= _json_size(settings)
            self.is_spent = self._bytes_left < 0
        return not self.is_spent

    def take(self, record: Record, attempts: Attempts) -> list[ItemRow]:
        """Return the rows that are due with *record* of a run with *attempts*, but for the first of the run."""
        points, marks = [], []
        for index, item in enumerate(items_of(record, attempts)):
            point = Point(index, item._replace(name=self._named(item)), record)
            if self._is_sent(point):
                continue
            if item.kind not in _POINTS:
                marks.append(point)
            elif self._is_due(point) and self._is_wanted(point.item.name):
                points.append(point)
        # What a mark says holds from here on: the points before it are sent before it.
        found = self._close() if any(point.item.kind in _BOUNDS for point in marks) else []
        found += [row._replace(alerts=self._alerts_until(record)) for row in rows_of(marks)]
        if points:
            found += self._place(points)
        if record.line in self._cuts:
            found += self.cut()
        return found

    def cut(self) -> list[ItemRow]:
        """Return the rows of the open window, which ends."""
        return self._close()

    def finish(self) -> list[ItemRow]:
        """Return the last rows of a run that has ended; of a spent budget, the last values as far as they fit."""
        rows = self._close()
        held, self._last = self._last, {}
        if not self.is_spent or not held:
            return rows
        return rows + [row for row in rows_of(held.values()) if self._pay(row, reserve=0)]

    def _alerts_until(self, record: Record) -> int:
        """Return the number of alerts like *record*; 0 for other records."""
        if record.kind != "alert":
            return 0
        alert = str(record.value.get("rule")), str(record.value.get("level"))
        # Memory is bounded, whatever the log names.
        alert = alert if alert in self._alerts or len(self._alerts) < MOST_NAMES else ("others", "")
        self._alerts[alert] += 1
        return self._alerts[alert]

    def _named(self, item: Item) -> str:
        kind = str(item.record.get("kind"))
        prefix = self._select.prefixes.get(kind)
        if prefix is None or item.kind not in _POINTS:
            return item.name
        return prefix + (item.name.removeprefix(f"{item.record.get('name')}/") if kind == "eval" else item.name)

    def _is_due(self, point: Point) -> bool:
        every, step = self._select.every, point.item.step
        return point.record.kind != "step" or (every > 0 and (step is None or not step % every))

    def _place(self, points: list[Point]) -> list[ItemRow]:
        rate = self._select.points_per_minute
        if rate is None:
            return self._paid(rows_of(points))
        t = points[0].item.t
        found = self._close() if self._window is not None and self._window.ends_before(t, len(self._names)) else []
        if self._window is None:
            self._window = Window(t, rate)
        for point in points:
            self._window.add(point)
        return found

    def _close(self) -> list[ItemRow]:
        window, self._window = self._window, None
        return self._paid(window.rows(len(self._names))) if window is not None else []

    def _paid(self, rows: list[ItemRow]) -> list[ItemRow]:
        """Return those of *rows* for which the budget has room, and note the last values of the others."""
        if self._points_left is None and self._bytes_left is None:
            return rows
        paid: list[ItemRow] = []
        for row in rows:
            if not self.is_spent and self._pay(row, reserve=len(self._names)):
                paid.append(row)
                continue
            self.is_spent = True
            for index, item in zip(row.indexes, row.items, strict=True):
                self._last[item.name] = Point(index, item, row.record)
        return paid

    def _pay(self, row: ItemRow, *, reserve: int) -> bool:
        """Take the price of *row* from the budget; return False, and take nothing, where only *reserve* is left."""
        size = _size(row) if self._bytes_left is not None else 0
        points = len(row.items)
        if self._points_left is not None and points + reserve > self._points_left:
            return False
        if self._bytes_left is not None and size > self._bytes_left:
            return False
        if self._points_left is not None:
            self._points_left -= points
        if self._bytes_left is not None:
            self._bytes_left -= size
        return True

    def _is_wanted(self, name: str) -> bool:
        if name not in self._names:
            if len(self._names) >= MOST_NAMES or not any(fnmatchcase(name, each) for each in self._select.metrics):
                return False
            self._names.add(name)
        return True

    def _is_sent(self, point: Point) -> bool:
        if self._sent is None:
            return False
        wanted = item_id(point.record.line, point.place)
        at = bisect_left(self._sent, wanted)
        return at < len(self._sent) and self._sent[at] == wanted


def item_id(line: int, index: int) -> int:
    """Return a number that no other item of the stream has."""
    return line << _INDEX_BITS | index


def _size(row: ItemRow) -> int:
    """Return the number of bytes that the points of *row* cost: as JSON, and those of their files."""
    values = {item.name: item.value for item in row.items}
    files = (item.record.get("size_bytes") for item in row.items if item.kind == "media")
    return _json_size(values) + sum(size for size in files if type(size) is int)


def _json_size(content: Any) -> int:
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
        held = self._points.setdefault(point.item.name, [])
        held.append(point)
        share = self._share(len(self._points))
        if len(held) > 4 * share:
            self._points[point.item.name] = thinned(held, share)

    def rows(self, names: int) -> list[ItemRow]:
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


def rows_of(points: Iterable[Point]) -> list[ItemRow]:
    """Return the rows of *points*, one for each record, in the order of the stream."""
    by_line: dict[int, list[Point]] = {}
    for point in sorted(points, key=_order):
        by_line.setdefault(point.record.line, []).append(point)
    return [
        ItemRow(found[0].record, tuple(point.item for point in found), tuple(point.place for point in found))
        for found in by_line.values()
    ]


def _order(point: Point) -> tuple[int, int]:
    return point.record.line, point.place


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
    measures = [point for point in points if point.item.kind == "measure"]
    numbers = [point for point in measures if point.item.value is not None and math.isfinite(point.item.value)]
    nulls = [point for point in measures if point.item.value is None or math.isnan(point.item.value)]
    kept = [points[0], points[-1], *nulls[:1], *nulls[-1:]]
    if numbers:
        kept += [min(numbers, key=_value), max(numbers, key=_value)]
    return sorted({_order(point): point for point in kept}.values(), key=_order)


def _value(point: Point) -> float:
    return float(point.item.value)
