"""Rows of a W&B history that have the same names and nothing but numbers, which become lines together."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.scalar_lines import lines_of_records
from toyspec.logs.plain_tables import UNUSABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toyspec.convert.losses import Ledger
    from toyspec.convert.timeline import Timeline

    Items = Sequence[tuple[str, bytes]]

_STEP, _WALL, _RUNTIME = "_step", "_timestamp", "_runtime"
_FRAMING = (_STEP, _WALL, _RUNTIME)
# A row of few values is made sooner by itself than the types of its columns.
_LEAST_ROWS = 8
_MOST_VALUES = 1 << 14
_LARGEST_EXACT = 2**53
_HISTORY_STEP = 0x12
_NUMBERS = frozenset([float, int])
_decode = msgspec.json.Decoder(list).decode


class WandbRows:
    """Successive rows with the names that were learned last."""

    def __init__(self, timeline: Timeline, ledger: Ledger) -> None:
        self._timeline, self._ledger = timeline, ledger
        self._names: dict[str, None] = {}
        self._in_order: Callable[[dict[str, bytes]], Iterable[bytes]]
        self._rows: list[bytes] = []
        self.bodies: list[bytes] = []
        """The messages of the rows that were taken."""
        self.last_step: int | None = None
        """The step of the last row that became a line."""

    def learn(self, names: Sequence[str]) -> None:
        """Take rows with *names* from now on, if such rows can be taken at all; there are no rows now."""
        learned = dict.fromkeys(names)
        is_plain = len(learned) == len(names) > len(learned.keys() & set(_FRAMING)) and _STEP in learned
        is_plain = is_plain and not any(name.endswith("._type") or UNUSABLE.search(name) for name in names)
        self._names = learned if is_plain else {}
        if is_plain:
            self._in_order = itemgetter(*learned)

    def take(self, body: bytes, items: Items, rest: bytes) -> bool:
        """Take the row *body*, of which *items* are name and JSON text and *rest* follows; return False if it differs.

        W&B writes the items of a row in any order.
        """
        found = dict(items)
        if not self._names or found.keys() != self._names.keys() or len(found) != len(items):
            return False
        # The step comes again after the items, in a message of its own.
        if rest and (rest[0] != _HISTORY_STEP or len(rest) != rest[1] + 2):
            return False
        self._rows.append(b",".join(self._in_order(found)))
        self.bodies.append(body)
        return True

    @property
    def is_full(self) -> bool:
        """True when the rows have to become lines, since memory is bounded."""
        return len(self._rows) * len(self._names) >= _MOST_VALUES

    def clear(self) -> None:
        """Drop the rows."""
        self._rows, self.bodies = [], []

    def lines(self) -> bytes | None:
        """Return the lines of the rows, settled as carried; None if something has to be changed or dropped."""
        columns = self._columns() if len(self._rows) >= _LEAST_ROWS else None
        if columns is None:
            return None
        steps, walls = columns.pop(_STEP), columns.pop(_WALL, None)
        columns.pop(_RUNTIME, None)
        times = self._times(walls)
        if times is None or set(map(type, steps)) != {int} or min(steps) < 0 or max(steps) > _LARGEST_EXACT:
            return None
        integers = [each for column in columns.values() for each in column if type(each) is int]
        if integers and max(map(abs, integers)) > _LARGEST_EXACT:
            return None
        self._timeline.take(times[-1])
        self.last_step = steps[-1]
        self._ledger.carry(len(columns) * len(steps))
        values: dict[str, Sequence[float]] = {name: list(map(float, column)) for name, column in columns.items()}
        return lines_of_records({"t": times, "step": steps}, values)

    def _columns(self) -> dict[str, list[Any]] | None:
        """Return the numbers of the rows by name; None if there is something else among them."""
        width = len(self._names)
        try:
            numbers = _decode(b"[" + b",".join(self._rows) + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        # A text that is two values or half of one would change the number of values, or their types.
        if len(numbers) != width * len(self._rows) or not _NUMBERS.issuperset(map(type, numbers)):
            return None
        return {name: numbers[at::width] for at, name in enumerate(self._names)}

    def _times(self, walls: list[float] | None) -> list[float] | None:
        """Return ``t`` of each row; None if one of the times has to be changed."""
        timeline = self._timeline
        if walls is None or timeline.start is None:
            return [timeline.last] * len(self._rows)
        start = timeline.start
        times = [wall - start + 0.0 for wall in walls]
        return times if timeline.follows(times) else None
