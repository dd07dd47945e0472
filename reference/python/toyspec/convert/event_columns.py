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
    """The layout of one record in a row."""

    offset: int
    """Offset of the record in the row."""
    size: int
    """Number of bytes of its data."""
    step_bytes: int
    tag: str


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
    start = block.starts[first]
    last = first + len(layouts)
    size = (block.starts[last] if last < len(block.starts) else len(block.data)) - start
    rows = _Rows(block.data, start, size, (len(block.data) - start) // size)
    for layout in layouts:
        rows.cut_to_layout(layout)
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
        layout = _layout(data[starts[index] + HEADER_BYTES : end - FOOTER_BYTES], starts[index] - starts[first])
        if layout is None:
            return []
        if layouts and layout.tag == layouts[0].tag:
            return layouts
        layouts.append(layout)
    return []


def _layout(data: bytes, offset: int) -> _Layout | None:
    match = _SCALAR.fullmatch(data)
    if match is None:
        return None
    step, outer, inner, tag = match[1] or b"", match[3][0], match[4][0], match[6]
    if match[5][0] != len(tag) or inner != len(tag) + 7 or outer != inner + 2:
        return None
    try:
        return _Layout(offset, len(data), len(step), tag.decode())
    except UnicodeDecodeError:
        return None


class _Rows:
    """Rows of bytes that follow each other, each like the first one."""

    def __init__(self, data: bytes, start: int, size: int, count: int) -> None:
        self._data = data
        self._start = start
        self._size = size
        self.count = count
        """Number of rows."""

    def _column(self, offset: int) -> bytes:
        start = self._start + offset
        return self._data[start : start + self.count * self._size - offset : self._size][: self.count]

    def cut_to_layout(self, layout: _Layout) -> None:
        """Keep the rows that have the same bytes as the first one where *layout* allows no other."""
        data = layout.offset + HEADER_BYTES
        step = data + 9 + (layout.step_bytes > 0)
        end = data + layout.size - _VALUE_BYTES
        fixed = [*range(layout.offset, data + 1), *range(data + 9, step), *range(step + layout.step_bytes, end)]
        for offset in fixed:
            column = self._column(offset)
            self.count -= len(column.lstrip(column[:1]))
        for offset in range(step, step + layout.step_bytes):
            column = self._column(offset).translate(_TOP_BITS)
            self.count -= len(column.lstrip(column[:1]))

    def has_good_checksums(self, layout: _Layout) -> bool:
        """Return whether the data of each record with this layout has its check sum."""
        data = layout.offset + HEADER_BYTES
        varying = [*range(1, 9), *range(10, 10 + layout.step_bytes), *range(layout.size - _VALUE_BYTES, layout.size)]
        template = bytearray(self._data[self._start + data : self._start + data + layout.size])
        combined = 0
        for position in varying:
            column = self._column(data + position)
            template[position] = 0
            combined ^= raw_of_column(column, layout.size - 1 - position)
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
        return self._numbers("d", layout.offset + HEADER_BYTES + 1, 8)

    def values(self, layout: _Layout) -> list[float]:
        """Return the values."""
        return self._numbers("f", layout.offset + HEADER_BYTES + layout.size - _VALUE_BYTES, _VALUE_BYTES)

    def steps(self, layout: _Layout) -> list[int]:
        """Return the steps, which a record leaves out if they are 0."""
        first = layout.offset + HEADER_BYTES + 10
        if not layout.step_bytes:
            return [0] * self.count
        lanes = bytearray(8 * self.count)
        for part in range(layout.step_bytes):
            lanes[part::8] = self._column(first + part)
        number = int.from_bytes(lanes, "little")
        # Each byte has seven bits of the step, the lowest first.
        joined = sum(number >> part & _lanes(127 << 7 * part, self.count) for part in range(layout.step_bytes))
        steps = array("Q", joined.to_bytes(8 * self.count, "little"))
        if not _IS_LITTLE:
            steps.byteswap()
        return steps.tolist()

    def _numbers(self, code: Literal["d", "f"], offset: int, size: int) -> list[float]:
        joined = bytearray(size * self.count)
        for part in range(size):
            joined[part::size] = self._column(offset + part)
        numbers: array[float] = array(code, bytes(joined))
        if not _IS_LITTLE:
            numbers.byteswap()
        return numbers.tolist()


def _lanes(value: int, count: int) -> int:
    """Return *value* in each of *count* lanes of 64 bits."""
    return int.from_bytes(value.to_bytes(8, "little") * count, "little")
