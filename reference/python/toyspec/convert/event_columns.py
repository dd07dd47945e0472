"""Decodes scalars of event files by columns, where records of the same tags repeat in the same order.

A training loop logs the same tags at every step, so most of a file is rows of one layout: only times, steps, values and
check sums differ. Such rows are checked and decoded with bulk operations on bytes; no Python code runs for a single
record. The result equals that of decoding record by record, which all other records are left to.
"""

from __future__ import annotations

import re
import sys
from array import array
from typing import TYPE_CHECKING, Literal, NamedTuple

from toyspec.convert.crc32c import crc32c, raw_of_column
from toyspec.convert.event_records import FOOTER_BYTES, HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.event_records import Block

_MAX_TAGS = 256
_FEWEST_ROWS = 6
_VALUE_BYTES = 4
# An event with a time, perhaps a step, and a summary of one value that has a tag and a simple_value.
_SCALAR = re.compile(
    rb"\x09.{8}(?:\x10([\x80-\xff]{0,7}[\x01-\x7f]))?(\x2a([\x00-\x7f])\x0a([\x00-\x7f])\x0a([\x00-\x7f])(.*)\x15).{4}",
    re.DOTALL,
)
_TOP_BITS = bytes(byte & 128 for byte in range(256))
_MASK_DELTA = 0xA282EAD8
_IS_LITTLE = sys.byteorder == "little"


class Columns(NamedTuple):
    """Scalars of consecutive records: rows of the same tags in the same order."""

    first: int
    """Index of the first record in its block."""
    tags: list[str]
    walls: list[float]
    """Seconds since the Unix epoch, for each record in order."""
    steps: list[int]
    values: list[float]


class _Layout(NamedTuple):
    """The layout of one record in a row; offsets are those in the row."""

    data: int
    """Offset of its data."""
    size: int
    """Number of bytes of its data."""
    step: range
    """Offsets of the bytes of the step; empty for the step 0."""
    tag: str

    @property
    def wall(self) -> range:
        """Offsets of the bytes of the time."""
        return range(self.data + 1, self.data + 9)

    @property
    def value(self) -> range:
        """Offsets of the bytes of the value."""
        return range(self.data + self.size - _VALUE_BYTES, self.data + self.size)

    @property
    def varying(self) -> tuple[int, ...]:
        """Offsets of the bytes of the data that differ from row to row."""
        return (*self.wall, *self.step, *self.value)


def parts(block: Block) -> Iterator[Columns | range]:
    """Yield the scalars of *block* by columns, and the indexes of records that must be decoded one by one, in order."""
    starts, index = block.starts, 0
    alone = 0
    while index < len(starts):
        found = _columns(block, index)
        if isinstance(found, Columns):
            if alone < index:
                yield range(alone, index)
            yield found
            index += len(found.values)
            alone = index
        else:
            index += found
    if alone < index:
        yield range(alone, index)


def _columns(block: Block, first: int) -> Columns | int:
    """Return the columns that begin with record *first*, else how many records have none."""
    layouts = _row(block, first)
    if not layouts:
        return 1
    rows = _Rows(block.data, block.starts[first], layouts, block.starts[first + len(layouts)])
    if rows.count < _FEWEST_ROWS:
        return len(layouts)
    if not all(rows.has_good_checksums(layout) for layout in layouts):
        # The block has damage; which record it is, is found one by one.
        return len(block.starts)
    period = len(layouts)
    walls, steps, values = [0.0] * (rows.count * period), [0] * (rows.count * period), [0.0] * (rows.count * period)
    for at, layout in enumerate(layouts):
        walls[at::period] = rows.walls(layout)
        steps[at::period] = rows.steps(layout)
        values[at::period] = rows.values(layout)
    return Columns(first, [layout.tag for layout in layouts], walls, steps, values)


def _row(block: Block, first: int) -> list[_Layout]:
    """Return the layout of the records from *first* to the one before the same tag comes again; none if it does not."""
    layouts: list[_Layout] = []
    data, starts = block.data, block.starts
    for index in range(first, min(first + _MAX_TAGS, len(starts))):
        end = starts[index + 1] if index + 1 < len(starts) else len(data)
        start = starts[index] + HEADER_BYTES
        layout = _layout(data[start : end - FOOTER_BYTES], start - starts[first])
        if layout is None:
            return []
        if layouts and layout.tag == layouts[0].tag:
            return layouts
        layouts.append(layout)
    return []


def _layout(data: bytes, at: int) -> _Layout | None:
    match = _SCALAR.fullmatch(data)
    if match is None:
        return None
    step, outer, inner, tag = match[1] or b"", match[3][0], match[4][0], match[6]
    if match[5][0] != len(tag) or inner != len(tag) + 7 or outer != inner + 2:
        return None
    try:
        return _Layout(at, len(data), range(at + 10, at + 10 + len(step)), tag.decode())
    except UnicodeDecodeError:
        return None


class _Rows:
    """Rows of bytes that follow each other, each like the first one."""

    def __init__(self, data: bytes, start: int, layouts: list[_Layout], end: int) -> None:
        """Take the bytes of *data* from *start* on; those of the first row end at *end*."""
        self._data = data
        self._start = start
        self._size = end - start
        self._known: dict[int, bytes] = {}
        self._steps: dict[tuple[bytes, ...], list[int]] = {}
        self.count = (len(data) - start) // self._size
        """Number of rows."""
        self._cut(layouts)

    def _column(self, offset: int) -> bytes:
        column = self._known.get(offset)
        if column is None:
            start = self._start + offset
            column = self._data[start : start + (self.count - 1) * self._size + 1 : self._size]
            self._known[offset] = column
        return column

    def _cut(self, layouts: list[_Layout]) -> None:
        """Keep the rows that have the same bytes as the first one where *layouts* allow no other."""
        size, count = self._size, self.count
        rows = bytearray(self._data[self._start : self._start + count * size])
        for layout in layouts:
            checksum = range(layout.data + layout.size, layout.data + layout.size + FOOTER_BYTES)
            for offset in (*layout.varying, *checksum):
                rows[offset::size] = bytes(count)
        kept = _count_of_repeats(rows, size)
        for layout in layouts:
            for offset in layout.step:
                # The top bit of a byte says whether the step goes on in the next one.
                tops = self._column(offset).translate(_TOP_BITS)
                kept = min(kept, len(tops) - len(tops.lstrip(tops[:1])))
        self.count = kept
        self._known = {offset: column[:kept] for offset, column in self._known.items()}

    def has_good_checksums(self, layout: _Layout) -> bool:
        """Return whether the data of each record with this layout has its check sum."""
        data = layout.data
        template = bytearray(self._data[self._start + data : self._start + data + layout.size])
        combined = 0
        for offset in layout.varying:
            column = self._column(offset)
            # High bytes of times and steps are the same in most rows.
            if column != column[:1] * self.count:
                template[offset - data] = 0
                combined ^= raw_of_column(column, layout.size - 1 - (offset - data))
        fixed = crc32c(bytes(template)).to_bytes(4, "little")
        combined ^= int.from_bytes(b"".join([fixed[part : part + 1] * self.count for part in range(4)]), "little")
        return combined.to_bytes(4 * self.count, "little") == self._stored(data + layout.size)

    def _stored(self, offset: int) -> bytes:
        """Return the check sums at *offset* without their mask: all lowest bytes, all second bytes, and so on."""
        lanes = bytearray(8 * self.count)
        for part in range(4):
            lanes[part::8] = self._column(offset + part)
        number = int.from_bytes(lanes, "little") + _lanes((1 << 32) - _MASK_DELTA, self.count)
        low = _lanes(0xFFFFFFFF, self.count)
        number &= low
        # Undoes a rotation by 15 to the right; what is shifted into the next lane is cut off.
        number = (number << 15 | number >> 17) & low
        unmasked = number.to_bytes(8 * self.count, "little")
        return b"".join([unmasked[part::8] for part in range(4)])

    def walls(self, layout: _Layout) -> list[float]:
        """Return the times."""
        return self._numbers("d", layout.wall)

    def values(self, layout: _Layout) -> list[float]:
        """Return the values."""
        return self._numbers("f", layout.value)

    def steps(self, layout: _Layout) -> list[int]:
        """Return the steps, which a record leaves out if they are 0."""
        if not layout.step:
            return [0] * self.count
        columns = tuple(map(self._column, layout.step))
        # All tags of a row have one step in most files.
        if columns not in self._steps:
            self._steps[columns] = self._decoded_steps(columns)
        return self._steps[columns]

    def _decoded_steps(self, columns: tuple[bytes, ...]) -> list[int]:
        lanes = bytearray(8 * self.count)
        for part, column in enumerate(columns):
            lanes[part::8] = column
        number = int.from_bytes(lanes, "little")
        # Each byte has seven bits of the step, the lowest first.
        joined = sum(number >> part & _lanes(127 << 7 * part, self.count) for part in range(len(columns)))
        steps = array("Q", joined.to_bytes(8 * self.count, "little"))
        if not _IS_LITTLE:
            steps.byteswap()
        return steps.tolist()

    def _numbers(self, code: Literal["d", "f"], offsets: range) -> list[float]:
        size = len(offsets)
        joined = bytearray(size * self.count)
        for part, offset in enumerate(offsets):
            joined[part::size] = self._column(offset)
        numbers: array[float] = array(code, bytes(joined))
        if not _IS_LITTLE:
            numbers.byteswap()
        return numbers.tolist()


def _count_of_repeats(rows: bytearray, size: int) -> int:
    """Return how many rows of *size* bytes are equal to the first one, up to the first that is not."""
    count = len(rows) // size
    low, high, first = 1, count + 1, bytes(rows[:size])
    expected = first * count
    if rows == expected:
        return count
    while high - low > 1:
        middle = (low + high) // 2
        if rows[: middle * size] == expected[: middle * size]:
            low = middle
        else:
            high = middle
    return low


def _lanes(value: int, count: int) -> int:
    """Return *value* in each of *count* lanes of 64 bits."""
    return int.from_bytes(value.to_bytes(8, "little") * count, "little")
