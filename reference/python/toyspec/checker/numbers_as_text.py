"""Finds the texts in another program's log that have the place of a number, such as ``1.02nan``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.format.dialect_mapping import in_phase, prefix_of
from toyspec.format.flattening import flattened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toyspec.format.dialect_mapping import ReadAs
    from toyspec.reading.rows import Row, RowBlock

# A log with more keys is not a table of numbers.
_MOST_KEYS = 10_000
_LIKE_NUMBER = re.compile(r"[-+]?\.?\d", re.ASCII)
# With marks between thousands, a decimal comma, an exponent of Fortran, a unit: no reader takes it for a number.
_SPELT_NUMBER = re.compile(
    r"[-+]?(?:\d{1,3}(?:[.,'\u2019 ]\d{3})+(?:[.,]\d*)?|\d+(?:[.,]\d*)?)(?:[dD][-+]?\d+)?"
    r"\s?(?:%|[A-Za-z\u00b5]{1,3}(?:/[A-Za-z]{1,3})?)?"
)
_LONGEST_NUMBER = 40
_MOST_SPELT = 100
_NUMBERS = frozenset([int, float])
_TABLES = ("csv", "pattern")


class NumberAsText(NamedTuple):
    """A text where the records before have a number."""

    key: str
    """The member, flattened."""
    text: str
    is_new: bool = False
    """True where the member had another type before: it is reported once."""


class NumbersAsText:
    """Remembers which members are numbers, and finds those that are not any more."""

    def __init__(self, read_as: ReadAs) -> None:
        self._has_numbers = not read_as.dialect.values.name
        self._time = read_as.time.key if read_as.time else None
        # The members of a JSON object may be anything; a column has one type.
        self._is_table = read_as.dialect.form.type in _TABLES
        self._numbers: set[str] = set()
        self._spelt: set[str] = set()

    def takes(self, block: RowBlock) -> bool:
        """Take in the members of *block*; return False, without that, if a text is where a number was."""
        named = dict(zip(block.table.names, block.table.columns, strict=True))
        texts = {name: column for name, column in named.items() if type(column[0]) is str}
        if any(name in self._numbers or self._is_spelt(name, column[0]) for name, column in texts.items()):
            return False
        self._add(name for name, column in named.items() if type(column[0]) in _NUMBERS)
        return True

    def find(self, row: Row, metric_name: Callable[[str], str | None]) -> list[NumberAsText]:
        """Return the texts of *row* that have the place of a number; *metric_name* names the metric in a member."""
        if not self._has_numbers:
            return []
        members = flattened(row.value)
        texts = [key for key, value in members.items() if type(value) is str and key in self._numbers]
        prefix = "" if row.phase is None else prefix_of(row.phase)

        def is_left_out(key: str) -> bool:
            return in_phase(metric_name(key) or "", prefix) not in row.values

        odd = [key for key in texts if is_left_out(key) and not (key == self._time and row.time)]
        # A number that is not finite may be a word.
        self._add(key for key, value in members.items() if type(value) in _NUMBERS or not is_left_out(key))
        found = [NumberAsText(key, members[key]) for key in odd]
        found = [each for each in found if self._is_table or _LIKE_NUMBER.match(each.text)]
        return found + self._spelt_in(members, metric_name)

    def _spelt_in(self, members: Mapping[str, Any], metric_name: Callable[[str], str | None]) -> list[NumberAsText]:
        """Return the members that have no number so far, and a text that people read as one."""
        found = []
        for key, value in members.items():
            is_spelt = type(value) is str and key not in self._numbers and self._is_spelt(key, value)
            if is_spelt and metric_name(key) is not None:
                self._spelt.add(key)
                found.append(NumberAsText(key, value, is_new=True))
        return found

    def _is_spelt(self, key: str, text: str) -> bool:
        if key in self._spelt or len(self._spelt) >= _MOST_SPELT or len(text) > _LONGEST_NUMBER:
            return False
        return _SPELT_NUMBER.fullmatch(text) is not None

    def _add(self, keys: Iterator[str]) -> None:
        if len(self._numbers) < _MOST_KEYS:
            self._numbers.update(keys)
