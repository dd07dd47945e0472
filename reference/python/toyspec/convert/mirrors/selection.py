"""Decides which points of a run are sent: a pure function of its records, so that every reading gives equal rows."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.convert.run_items import Item, ItemRow, items_of

if TYPE_CHECKING:
    from toyspec.convert.mirrors.settings import Selecting
    from toyspec.core.reading.attempts import Attempts
    from toyspec.core.reading.records import Record

MOST_ALERTS: Final = 10_000
"""Alerts of further rules are counted together: memory is bounded, whatever the log names."""
_POINTS: Final = frozenset(["measure", "text", "histogram", "media"])
"""What has a name, and a budget."""
_BYTES_PER_MEGABYTE: Final = 1_000_000


class Selection:
    """The rows of one run, as its records come; the row of a record has its number, whatever is selected."""

    def __init__(self, select: Selecting, settings: Any = None) -> None:
        """Select from the run with these *settings*, which are sent too."""
        self._select = select
        self._alerts: Counter[tuple[str, str]] = Counter()
        self._numbers = count()
        self._bytes_left: float | None = None
        self.is_spent = False
        """Whether the budget is used up."""
        if select.megabytes is not None:
            self._bytes_left = select.megabytes * _BYTES_PER_MEGABYTE
            self._pay(_json_size(settings))

    def row(self, record: Record, attempts: Attempts) -> ItemRow | None:
        """Return what is sent of *record*, one after the first of a run with *attempts*; None without any item."""
        items = [item._replace(name=self._named(item)) for item in items_of(record, attempts)]
        wanted = [item for item in items if item.kind not in _POINTS or self._is_wanted(item)]
        points = [item for item in wanted if item.kind in _POINTS]
        if points and self._bytes_left is not None:
            self._pay(_size(points))
        if self.is_spent:
            wanted = [item for item in wanted if item.kind not in _POINTS]
        number, alerts = next(self._numbers), self._alerts_until(record)
        return ItemRow(record, tuple(wanted), number, alerts) if wanted else None

    def _pay(self, size: float) -> None:
        assert self._bytes_left is not None
        self.is_spent = self.is_spent or size > self._bytes_left
        self._bytes_left -= size

    def _alerts_until(self, record: Record) -> int:
        """Return the number of alerts like *record*; 0 for other records."""
        if record.kind != "alert":
            return 0
        alert = str(record.value.get("rule")), str(record.value.get("level"))
        alert = alert if alert in self._alerts or len(self._alerts) < MOST_ALERTS else ("others", "")
        self._alerts[alert] += 1
        return self._alerts[alert]

    def _named(self, item: Item) -> str:
        kind = str(item.record.get("kind"))
        prefix = self._select.prefixes.get(kind)
        if prefix is None or item.kind not in _POINTS:
            return item.name
        return prefix + (item.name.removeprefix(f"{item.record.get('name')}/") if kind == "eval" else item.name)

    def _is_wanted(self, item: Item) -> bool:
        every = self._select.every
        is_due = item.record.get("kind") != "step" or (every > 0 and (item.step is None or not item.step % every))
        return is_due and any(fnmatchcase(item.name, each) for each in self._select.metrics)


def _size(points: list[Item]) -> int:
    """Return the number of bytes that *points* cost: as JSON, and those of their files."""
    files = (item.record.get("size_bytes") for item in points if item.kind == "media")
    return _json_size({item.name: item.value for item in points}) + sum(size for size in files if type(size) is int)


def _json_size(content: Any) -> int:
    return len(msgspec.json.encode(content, enc_hook=str))
