"""Finds the texts in another program's log that have the place of a number, such as ``1.02nan``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from toyspec.format.flattening import flattened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.format.dialect_mapping import ReadAs
    from toyspec.reading.rows import Row, RowBlock

# A log with more keys is not a table of numbers.
_MOST_KEYS = 10_000
_LIKE_NUMBER = re.compile(r"[-+]?\.?\d", re.ASCII)
_NUMBERS = frozenset([int, float])
_TABLES = ("csv", "pattern")


class NumberAsText(NamedTuple):
    """A text where the records before have a number."""

    key: str
    """The member, flattened."""
    text: str


class NumbersAsText:
    """Remembers which members are numbers, and finds those that are not any more."""

    def __init__(self, read_as: ReadAs) -> None:
        self._has_numbers = not read_as.dialect.values.name
        self._time = read_as.time.key if read_as.time else None
        # The members of a JSON object may be anything; a column has one type.
        self._is_table = read_as.dialect.form.type in _TABLES
        self._numbers: set[str] = set()

    def takes(self, block: RowBlock) -> bool:
        """Take in the members of *block*; return False, without that, if a text is where a number was."""
        named = dict(zip(block.table.names, block.table.columns, strict=True))
        if any(type(column[0]) is str and name in self._numbers for name, column in named.items()):
            return False
        self._add(name for name, column in named.items() if type(column[0]) in _NUMBERS)
        return True

    def find(self, row: Row, metric_name: Callable[[str], str | None]) -> list[NumberAsText]:
        """Return the texts of *row* that have the place of a number; *metric_name* names the metric in a member."""
        if not self._has_numbers:
            return []
        members = flattened(row.value)
        texts = [key for key, value in members.items() if type(value) is str and key in self._numbers]
        odd = [key for key in texts if metric_name(key) not in row.values and not (key == self._time and row.time)]
        self._add(key for key, value in members.items() if type(value) in _NUMBERS)
        found = [NumberAsText(key, members[key]) for key in odd]
        return [each for each in found if self._is_table or _LIKE_NUMBER.match(each.text)]

    def _add(self, keys: Iterator[str]) -> None:
        if len(self._numbers) < _MOST_KEYS:
            self._numbers.update(keys)
