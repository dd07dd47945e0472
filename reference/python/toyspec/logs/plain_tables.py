"""Consecutive lines of a log with the same members, and nothing but numbers and text in them, decoded at once.

Most of a log is such lines. A type is made for the members of the first one, those of inner objects included, which
refuses all others, so that no Python code runs for a line. Of a table of cells, the lines with the same blank cells are
like each other. Lines that are not in a table are read one by one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from toyspec.core.format.decoding import typed_decoder
from toyspec.core.format.flattening import flattened
from toyspec.core.format.line_validation import decode, holds_long_number
from toyspec.core.format.lines import Line

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
_Cell = Annotated[int, msgspec.Meta(ge=-_MAX_CELL, le=_MAX_CELL)] | float
_CELLS = msgspec.json.Decoder(list[_Cell])
_CELLS_OR_BLANKS = msgspec.json.Decoder(list[_Cell | None])
# As deep as objects are flattened.
_MOST_LEVELS = 8
_TYPES: dict[type, Any] = {int: int | float, float: int | float, str: str, bool: bool}
_Kinds = tuple[tuple[str, Any], ...]
"""Name and type of each member; in place of a type, those of an inner object."""


class PlainTable(NamedTuple):
    """Lines that follow each other, by columns."""

    number: int
    """Number of the first line, counted from 1."""
    offset: int
    """Byte offset of the first line."""
    lines: list[bytes]
    names: tuple[str, ...]
    """The members of each line, flattened, in order."""
    columns: list[Sequence[Any]]
    """The numbers, or texts, of each member."""
    keys: int
    """Number of keys in each line, those of inner objects included."""

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
    keys: int


class JsonTables:
    """Finds the tables among lines of JSON."""

    def __init__(self) -> None:
        self._misses = 0

    def find(self, lines: Sequence[bytes], at: int) -> Found | None:
        """Return the columns of the lines from *at* on that are like the first of them; None if they are too few."""
        if self._misses > _MOST_MISSES or len(lines) - at < FEWEST_LINES:
            return None
        first, second = decode(lines[at]), decode(lines[at + 1])
        if not first or not second or flattened(first).keys() != flattened(second).keys():
            return None
        kinds = _kinds_of(first, _MOST_LEVELS)
        decoder = None if kinds is None else _decoder_of(kinds)
        found = [] if decoder is None else _decoded(_from(lines, at), decoder)
        if kinds is None or len(found) < FEWEST_LINES or holds_long_number(lines[at : at + len(found)]):
            self._misses += 1
            return None
        self._misses = max(0, self._misses - len(found))
        return Found(tuple(flattened(first)), _columns_of(found, kinds), _count_of(kinds))


class CellTables:
    """Finds the tables among lines of cells."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()
        # What JSON takes for white space, or for the end of a number, is a part of a cell.
        self._foreign = [each for each in (b" ", b"\t", b",") if each != self._delimiter]
        self._misses = 0

    def find(self, lines: Sequence[bytes], at: int, header: Sequence[str]) -> Found | None:
        """Return the columns of the lines from *at* on of numbers under *header* with the same blank cells.

        None if they are too few.
        """
        if self._misses > _MOST_MISSES or len(lines) - at < FEWEST_LINES or len(set(header)) != len(header):
            return None
        blanks = [not cell for cell in lines[at].rstrip(b"\r").split(self._delimiter)]
        if all(blanks) or len(blanks) != len(header):
            return None
        rows = self._with_blanks(lines, at, blanks) if any(blanks) else self._without(lines, at, len(header))
        if len(rows) < FEWEST_LINES:
            self._misses += 1
            return None
        self._misses = max(0, self._misses - len(rows))
        return self._found(header, blanks, rows)

    def _found(self, header: Sequence[str], blanks: Sequence[bool], rows: list[list[Any]]) -> Found:
        names = tuple(name for name, is_blank in zip(header, blanks, strict=True) if not is_blank)
        columns = zip(*rows, strict=True)
        kept: list[Sequence[Any]] = [column for column, is_blank in zip(columns, blanks, strict=True) if not is_blank]
        return Found(names, kept, len(names))

    def _without(self, lines: Sequence[bytes], at: int, count: int) -> list[list[Any]]:
        rows = _decoded(map(b"[%b]".__mod__, self._plain(lines, at)), _CELLS.decode)
        return list(takewhile(lambda row: len(row) == count, rows))

    def _with_blanks(self, lines: Sequence[bytes], at: int, blanks: list[bool]) -> list[list[Any]]:
        decoded = map(_CELLS_OR_BLANKS.decode, map(_filled, self._plain(lines, at)))
        return _taken(takewhile(lambda row: [cell is None for cell in row] == blanks, decoded))

    def _plain(self, lines: Sequence[bytes], at: int) -> Iterator[bytes]:
        """Yield the lines from *at* on with commas between their cells, up to one that needs another reader."""
        one, two = self._foreign
        plain = takewhile(lambda line: one not in line and two not in line, _from(lines, at))
        return plain if self._delimiter == b"," else (line.replace(self._delimiter, b",") for line in plain)


def _filled(line: bytes) -> bytes:
    """Return *line* as a JSON array, with null for each blank cell."""
    text = b",%b," % line.rstrip(b"\r")
    # Two commas share one of three.
    return b"[%b]" % text.replace(b",,", b",null,").replace(b",,", b",null,")[1:-1]


def _from(lines: Sequence[bytes], at: int) -> Iterator[bytes]:
    return map(lines.__getitem__, range(at, len(lines)))


def _decoded(lines: Iterable[bytes], decode_line: Callable[[bytes], Any]) -> list[Any]:
    """Return what *lines* decode into, up to the first that is refused."""
    return _taken(map(decode_line, lines))


def _taken(rows: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        found.extend(rows)
    return found


def _kinds_of(value: dict[str, Any], levels: int) -> _Kinds | None:
    """Return name and type of each member, of an inner object its own; None if one needs another reader."""
    found: list[tuple[str, Any]] = []
    for name, member in value.items():
        kind: Any = type(member)
        if kind is dict:
            kind = _kinds_of(member, levels - 1) if member and levels else None
        elif kind not in _TYPES:
            return None
        if kind is None:
            return None
        found.append((name, kind))
    return tuple(found)


def _count_of(kinds: _Kinds) -> int:
    return sum(1 + (_count_of(kind) if isinstance(kind, tuple) else 0) for _, kind in kinds)


def _columns_of(records: Sequence[Any], kinds: _Kinds) -> list[Sequence[Any]]:
    """Return the numbers, or texts, of each member of *records* of one type, those of inner objects in their place."""
    found: list[Sequence[Any]] = []
    for column, (_, kind) in zip(zip(*map(msgspec.structs.astuple, records), strict=True), kinds, strict=True):
        found += _columns_of(column, kind) if isinstance(kind, tuple) else [column]
    return found


@lru_cache(maxsize=256)
def _decoder_of(kinds: _Kinds) -> Callable[[bytes], Any] | None:
    """Return the decoder of lines with these members; None if their names need another reader."""
    if _count_of(kinds) > _MOST_MEMBERS:
        return None
    made = _type_of(kinds)
    names = _names_of(kinds, "")
    if made is None or len(set(names)) != len(names):
        return None
    return typed_decoder(made).decode


def _names_of(kinds: _Kinds, prefix: str) -> list[str]:
    """Return the flattened names."""
    found: list[str] = []
    for name, kind in kinds:
        found += _names_of(kind, f"{prefix}{name}/") if isinstance(kind, tuple) else [prefix + name]
    return found


def _type_of(kinds: _Kinds) -> Any:
    """Return the type of objects with these members; None if their names need another reader."""
    if UNUSABLE.search("".join(name for name, _ in kinds)):
        return None
    types = [_type_of(kind) if isinstance(kind, tuple) else _TYPES[kind] for _, kind in kinds]
    if None in types:
        return None
    fields = [
        (f"m{index}", kind, msgspec.field(name=name))
        for index, ((name, _), kind) in enumerate(zip(kinds, types, strict=True))
    ]
    return msgspec.defstruct("Members", fields, forbid_unknown_fields=True, gc=False)
