"""The records of W&B run files: a header, then the log format of LevelDB with another check sum, and its salvage.

A block has 32 KiB. A chunk is the CRC-32 of type and data, the length of the data, the type, and the data; a record is
one chunk or several, and a chunk never crosses the end of a block.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, BinaryIO

from toyspec.convert.tensorboard_records import Damage

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b":W&B"
FILE_HEADER = MAGIC + struct.pack("<HB", 0xBEE1, 0)
BLOCK_BYTES = 1 << 15
MAX_RECORD_BYTES = 1 << 27
"""A longer record is dropped: memory is bounded."""

_CHUNK = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_records(file: BinaryIO) -> Iterator[bytes | Damage]:
    """Yield each record of *file*, and the places that cannot be read; memory does not grow with the file."""
    offset = 0
    parts: list[bytes] = []
    at = len(FILE_HEADER)
    while block := file.read(BLOCK_BYTES):
        for item in _chunks(block, at, offset):
            if isinstance(item, Damage):
                parts = []
                yield item
                continue
            kind, data, place = item
            if kind == _FULL and not parts:
                yield data
                continue
            if kind in (_FULL, _FIRST):
                if parts:
                    yield Damage(place, sum(map(len, parts)), "a record has no end")
                parts = [data]
            elif parts and sum(map(len, parts)) < MAX_RECORD_BYTES:
                parts.append(data)
            else:
                # Its start was damaged, and is reported already.
                parts = []
                continue
            if kind in (_FULL, _LAST):
                yield b"".join(parts)
                parts = []
        at = 0
        offset += len(block)
    if parts:
        yield Damage(offset, sum(map(len, parts)), "the last record is not complete")


def _chunks(block: bytes, at: int, offset: int) -> Iterator[tuple[int, bytes, int] | Damage]:
    """Yield type, data and offset of each chunk of a block from *at* on; after damage look for the next one."""
    crc32, unpack, size = zlib.crc32, _CHUNK.unpack_from, len(block)
    while at + _CHUNK.size <= size:
        checksum, length, kind = unpack(block, at)
        end = at + _CHUNK.size + length
        if end <= size and _FULL <= kind <= _LAST and crc32(block[at + 6 : end]) == checksum:
            yield kind, block[at + _CHUNK.size : end], offset + at
            at = end
            continue
        if not any(block[at:]):
            if size < BLOCK_BYTES or at + _CHUNK.size < size:
                yield Damage(offset + at, size - at, "zeros in place of records")
            return
        after = end if _is_chunk(block, end) else _next_chunk(block, at + 1)
        yield Damage(offset + at, after - at, "the check sum of a record is wrong")
        at = after
    if at < size < BLOCK_BYTES:
        yield Damage(offset + at, size - at, "the last record is not complete")


def _is_chunk(block: bytes, at: int) -> bool:
    if at + _CHUNK.size > len(block):
        return at in (len(block), BLOCK_BYTES)
    checksum, length, kind = _CHUNK.unpack_from(block, at)
    end = at + _CHUNK.size + length
    return bool(end <= len(block) and _FULL <= kind <= _LAST and zlib.crc32(block[at + 6 : end]) == checksum)


def _next_chunk(block: bytes, at: int) -> int:
    """Return where the next chunk of *block* starts, or its end."""
    while at < len(block):
        if _is_chunk(block, at):
            return at
        at += 1
    return len(block)
