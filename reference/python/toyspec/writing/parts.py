"""Finds how much of a line is in a file by its bytes, since others may change the size of the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.system_calls import SystemCalls

_BLOCK_BYTES = 1 << 20


def bytes_in_file(descriptor: int, data: bytes, committed: int) -> int | None:
    """Return how many bytes of the line *data* are at the end of a file; None if bytes of another writer follow them.

    *committed* is the size that the file had before, unless another process has appended to it or emptied it.
    """
    size = os.fstat(descriptor).st_size
    tail = _read(descriptor, max(0, size - len(data)), len(data))
    grown = size - committed
    if 0 <= grown <= len(data) and tail.endswith(data[:grown]):
        return grown
    if tail.endswith(data):
        return len(data)
    part = tail[tail.rfind(b"\n") + 1 :]
    return len(part) if data.startswith(part) else None


def copy_bytes(source: int, target: int, length: int, calls: SystemCalls) -> int:
    """Append the first *length* bytes of one file to another, or all if it has fewer; return the number."""
    offset = 0
    while block := _read(source, offset, min(_BLOCK_BYTES, length - offset)):
        offset += len(block)
        rest = memoryview(block)
        while rest:
            rest = rest[calls.write(target, rest) :]
    return offset


def _read(descriptor: int, offset: int, length: int) -> bytes:
    """Return *length* bytes from *offset*, fewer at the end of the file."""
    os.lseek(descriptor, offset, os.SEEK_SET)
    found = b""
    while block := os.read(descriptor, length - len(found)):
        found += block
    return found
