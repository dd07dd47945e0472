"""Consecutive lines of a log with the same members, and nothing but numbers and text in them, decoded at once.

Most of a log is such lines. A type is made for the members of the first one, which refuses all others, so that no
Python code runs for a line. Lines that are not in a table are read one by one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from toyspec.format.line_validation import decode, holds_long_number
from toyspec.format.lines import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

FEWEST_LINES = 4
"""A table has at least this many lines: fewer are faster one by one."""

_MOST_MEMBERS = 256
# A log in which no two lines are alike makes a type for each of them.
_MOST_MISSES = 64
UNUSABLE = re.compile(r'[\\"\x00-\x1f]')
"""A type cannot have a member with this in its name."""
_MAX_CELL = 10**18 - 1
_CELLS = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=-_MAX_CELL, le=_MAX_CELL)] | float])
_TYPES: dict[type, Any] = {int: int | float, float: int | float, str: str, bool: bool}


class Table(NamedTuple):
    """Lines that follow each other, by columns."""

    number: int
    """Number of the first line, counted from 1."""
    offset: int
    """Byte offset of the first line."""
    lines: list[bytes]
    names: tuple[str, ...]
    """The members of each line, in order."""
    columns: list[Sequence[Any]]
    """The numbers, or texts, of each member."""

    def each_line(self) -> Iterator[Line]:
        """Yield the lines one by one."""
        offset = self.offset
        for number, data in enumerate(self.lines, self.number):
            yield Line(number, offset, len(data), data, b"")
            offset += len(data) + 1


class Found(NamedTuple):
    """The members and columns of the lines of a table."""

    names: tuple[str, ...]
    columns: list[Sequence[Any]]


class JsonTables:
    """Finds the tables among lines of JSON."""

    def __init__(self) -> None:
        self._misses = 0

    def find(self, lines: Sequence[bytes], at: int) -> Found | None:
        """Return the columns of the lines from *at* on that are like the first of them; None if they are too few."""
        if self._misses > _MOST_MISSES or len(lines) - at < FEWEST_LINES:
            return None
        first, second = decode(lines[at]), decode(lines[at + 1])
        if not first or not second or first.keys() != second.keys():
            return None
        decoder = _decoder_of(tuple(first), tuple(map(type, first.values())))
        found = [] if decoder is None else _decoded(_from(lines, at), decoder)
        if len(found) < FEWEST_LINES or holds_long_number(lines[at : at + len(found)]):
            self._misses += 1
            return None
        self._misses = max(0, self._misses - len(found))
        return Found(tuple(first), list(zip(*map(msgspec.structs.astuple, found), strict=True)))


def cells_table(lines: Sequence[bytes], at: int, header: Sequence[str]) -> Found | None:
    """Return the columns of the lines from *at* on of comma-separated numbers under *header*; None if too few."""
    if len(lines) - at < FEWEST_LINES or len(set(header)) != len(header):
        return None
    # What JSON takes for white space is a part of a cell.
    plain = takewhile(lambda line: b" " not in line and b"\t" not in line, _from(lines, at))
    rows = _decoded(map(b"[%b]".__mod__, plain), _CELLS.decode)
    count = len(header)
    rows = list(takewhile(lambda row: len(row) == count, rows))
    return None if len(rows) < FEWEST_LINES else Found(tuple(header), list(zip(*rows, strict=True)))


def _from(lines: Sequence[bytes], at: int) -> Iterator[bytes]:
    return map(lines.__getitem__, range(at, len(lines)))


def _decoded(lines: Iterable[bytes], decode_line: Callable[[bytes], Any]) -> list[Any]:
    """Return what *lines* decode into, up to the first that is refused."""
    found: list[Any] = []
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        found.extend(map(decode_line, lines))
    return found


@lru_cache(maxsize=256)
def _decoder_of(names: tuple[str, ...], types: tuple[type, ...]) -> Callable[[bytes], Any] | None:
    """Return the decoder of lines with these members; None if one of them needs another reader."""
    if len(names) > _MOST_MEMBERS or not _TYPES.keys() >= set(types) or UNUSABLE.search("".join(names)):
        return None
    fields = [
        (f"m{index}", _TYPES[kind], msgspec.field(name=name))
        for index, (name, kind) in enumerate(zip(names, types, strict=True))
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields, forbid_unknown_fields=True, gc=False)).decode
