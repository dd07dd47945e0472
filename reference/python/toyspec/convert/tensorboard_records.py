"""The records of TensorBoard event files: framing, check sums, and salvage after damage.

A record is its length, the masked CRC-32C of the length, the data, and the masked CRC-32C of the data.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


def crc32c_plainly(data: Iterable[int]) -> int:
    """Return the CRC-32C of *data*, computed in Python."""
    crc = _ALL_ONES
    table = _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ _ALL_ONES


try:
    from google_crc32c import value as _value
except ImportError:
    _value = crc32c_plainly


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of *data*."""
    return int(_value(data))


def masked(crc: int) -> int:
    """Return *crc* as TensorBoard stores it."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES


HEADER_BYTES = 12
FOOTER_BYTES = 4
MAX_RECORD_BYTES = 1 << 26
"""A longer record is taken for damage: even an image is shorter."""

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_CHUNK_BYTES = 1 << 18
_FIRST_TRY = 16
_LONGEST_ROW = 256
# A length below 2**32 has four zeros behind its low half; in a long run of zeros only the last place can be one.
_POSSIBLE_HEADER = re.compile(rb"(?=\0{4}(?!\0{4}))")


class Damage(NamedTuple):
    """Bytes that are not a record."""

    offset: int
    length: int
    fact: str


class EventBlock(NamedTuple):
    """Consecutive bytes of a file that are whole records, not checked yet."""

    offset: int
    data: bytes
    starts: list[int]
    """Where each record starts in *data*."""

    def payloads(self) -> list[bytes]:
        """Return the data of each record."""
        ends = [*self.starts[1:], len(self.data)]
        pairs = zip(self.starts, ends, strict=True)
        return [self.data[start + HEADER_BYTES : end - FOOTER_BYTES] for start, end in pairs]

    def only(self, index: int) -> EventBlock:
        """Return the block of the one record *index*."""
        start, end = [*self.starts, len(self.data)][index : index + 2]
        return EventBlock(self.offset + start, self.data[start:end], [0])


def may_begin(head: bytes) -> bool:
    """Return whether *head*, the first bytes of a file, may be those of a record that is there or was cut off."""
    if len(head) < HEADER_BYTES:
        return True
    _, checksum = _HEADER.unpack_from(head)
    return bool(masked(crc32c(head[: HEADER_BYTES - 4])) == checksum)


def read_blocks(file: BinaryIO) -> Iterator[EventBlock | Damage]:
    """Yield the blocks of *file*; their headers are checked, their data is not. Memory does not grow with the file."""
    damage: Damage | None = None
    for part in _parts(file):
        if damage is None:
            damage = part if isinstance(part, Damage) else None
        elif isinstance(part, Damage):
            # What was skipped in one chunk goes on in the next.
            damage = Damage(damage.offset, damage.length + part.length, damage.fact)
            continue
        else:
            yield damage
            damage = None
        if isinstance(part, EventBlock):
            yield part
    if damage is not None:
        yield damage


def _parts(file: BinaryIO) -> Iterator[EventBlock | Damage]:
    buffer, offset, wanted = b"", 0, _CHUNK_BYTES
    while True:
        more = file.read(wanted)
        buffer += more
        starts, end = _walk(buffer)
        if starts:
            yield EventBlock(offset, buffer[:end], starts)
        buffer, offset = buffer[end:], offset + end
        if _header_is_damaged(buffer):
            skipped = _to_next_header(buffer)
            yield Damage(offset, skipped, "the length of a record is damaged")
            buffer, offset = buffer[skipped:], offset + skipped
            wanted = 0
            continue
        if not more and wanted:
            break
        wanted = max(_CHUNK_BYTES, _missing(buffer))
    if buffer:
        yield Damage(offset, len(buffer), "the last record is not complete")


def check(block: EventBlock, payloads: list[bytes]) -> list[int]:
    """Return the indexes of the records whose data does not have its check sum."""
    ends = [*block.starts[1:], len(block.data)]
    data = block.data
    stored = [data[end - FOOTER_BYTES : end] for end in ends]
    pack = _CHECKSUM.pack
    return [index for index, payload in enumerate(payloads) if pack(masked(crc32c(payload))) != stored[index]]


def record(data: bytes) -> bytes:
    """Return the record with *data*."""
    length = struct.pack("<Q", len(data))
    return b"".join([length, _CHECKSUM.pack(masked(crc32c(length))), data, _CHECKSUM.pack(masked(crc32c(data)))])


def _walk(buffer: bytes) -> tuple[list[int], int]:
    """Return where the records start that are whole in *buffer*, up to the first damaged length, and where they end."""
    starts: list[int] = []
    # Most headers occur many times, as their lengths do.
    sizes: dict[bytes, int] = {}
    size_of, add = sizes.get, starts.append
    at, last, next_try = 0, len(buffer) - HEADER_BYTES - FOOTER_BYTES, _FIRST_TRY
    while at <= last:
        header = buffer[at : at + HEADER_BYTES]
        size = size_of(header)
        if size is None:
            if not _is_header(header, 0):
                break
            size = sizes[header] = HEADER_BYTES + FOOTER_BYTES + int(_HEADER.unpack(header)[0])
        add(at)
        at += size
        if len(starts) >= next_try and at <= last:
            at = _add_repeats(buffer, starts, at)
            next_try = max(2 * next_try, len(starts) + _FIRST_TRY)
    if at > len(buffer):
        at = starts.pop()
    return starts, at


def _add_repeats(buffer: bytes, starts: list[int], at: int) -> int:
    """Add to *starts* the records from *at* on whose headers repeat those before, row by row; return where they end.

    A training loop writes the same tags at every step, so that most records are found here.
    """
    headers = [buffer[start : start + HEADER_BYTES] for start in starts[-2 * _LONGEST_ROW :]]
    periods = range(1, len(headers) // 2 + 1)
    period = next((each for each in periods if headers[-each:] == headers[-2 * each : -each]), None)
    if period is None:
        return at
    row = starts[-period:]
    size = at - row[0]
    count = (len(buffer) - at) // size
    for start, header in zip(row, headers[-period:], strict=True):
        first = start + size
        for part in range(HEADER_BYTES if count else 0):
            column = buffer[first + part : first + count * size : size]
            count = len(column) - len(column.lstrip(header[part : part + 1]))
    found = [0] * (count * period)
    for part, start in enumerate(row):
        found[part::period] = range(start + size, start + size + count * size, size)
    starts += found
    return at + count * size


def _is_header(buffer: bytes, at: int) -> bool:
    length, checksum = _HEADER.unpack_from(buffer, at)
    return int(length) <= MAX_RECORD_BYTES and masked(crc32c(buffer[at : at + 8])) == int(checksum)


def _header_is_damaged(buffer: bytes) -> bool:
    return len(buffer) >= HEADER_BYTES and not _is_header(buffer, 0)


def _to_next_header(buffer: bytes) -> int:
    """Return the number of bytes from the start of *buffer*, which is not a header, to what is or may be one."""
    for match in _POSSIBLE_HEADER.finditer(buffer, 5):
        at = match.start() - 4
        if at + HEADER_BYTES > len(buffer):
            return at
        if _is_header(buffer, at):
            return at
    # The start of a header may be at the end.
    return max(1, len(buffer) - HEADER_BYTES)


def _missing(buffer: bytes) -> int:
    """Return how many bytes the record at the start of *buffer* lacks; 0 where that is not known."""
    if len(buffer) < HEADER_BYTES:
        return 0
    return HEADER_BYTES + FOOTER_BYTES + int(_HEADER.unpack_from(buffer)[0]) - len(buffer)
