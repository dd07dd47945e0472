"""An object of a place as a binary file: it is read in ranges, from the start on or after a seek.

The blocks of small objects are kept: a command that reads a run twice asks the store once.
"""

from __future__ import annotations

import io
import os
import threading
from typing import TYPE_CHECKING

from toyspec.core.places.place import ChangedError, place_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from toyspec.core.places.place import Entry


_MOST_KEPT_BYTES = 1 << 25
# Of a larger one, the first blocks would be dropped before they are asked for again.
_MOST_OBJECT_BYTES = 1 << 24

_lock = threading.Lock()
# By entity tag, so that they are never out of date; the least recently used first.
_blocks: dict[tuple[str, str, int], bytes] = {}


def kept_block(entry: Entry, start: int) -> bytes | None:
    """Return the block of the object *entry* that begins at *start*, None if it is not kept."""
    key = (entry.address, entry.identity, start)
    with _lock:
        found = _blocks.pop(key, None)
        if found is not None:
            _blocks[key] = found
    return found


def keep_block(entry: Entry, start: int, data: bytes) -> None:
    """Keep a block of the object *entry*, if it is small and has an entity tag; at most 32 MiB of all objects."""
    if entry.size > _MOST_OBJECT_BYTES or not entry.identity.startswith('"'):
        return
    with _lock:
        _blocks.pop((entry.address, entry.identity, start), None)
        _blocks[entry.address, entry.identity, start] = data
        while sum(map(len, _blocks.values())) > _MOST_KEPT_BYTES:
            del _blocks[next(iter(_blocks))]


FIRST_BYTES = 1 << 16
"""Number of bytes that opening an object reads; the whole of a small one."""

_MOST_BYTES = 1 << 23
_OVERLAP_BYTES = 1 << 12


class RemoteFile(io.RawIOBase):
    """The object at *address*, open for reading; opening reads its first bytes.

    All bytes are of one version of the object. If it is replaced while it is read, reading goes on in the new one if
    that has the last bytes that were read at the same place, as a log that has grown; else it raises ChangedError.
    Opening and reading raise OSError: PlaceError, or FileNotFoundError.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self.name = address
        self._place = place_of(address)
        self._at = self._start = 0
        self._size_of_next = FIRST_BYTES
        self._block, self._entry = self._place.read_range(address, 0, FIRST_BYTES, None)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the byte offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to the byte *offset* from the start, the position or the end; reads nothing."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._entry.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into *buffer*; return the number of bytes, 0 at the end."""
        view = memoryview(buffer).cast("B")
        if not self._start <= self._at < self._start + len(self._block):
            self._fetch()
        begin = self._at - self._start
        data = self._block[begin : begin + len(view)]
        self._at += len(data)
        view[: len(data)] = data
        return len(data)

    def _fetch(self) -> None:
        if self._at >= self._entry.size:
            self._block, self._start = b"", self._at
            return
        data = kept_block(self._entry, self._at)
        if data is None:
            try:
                data = self._place.read_range(self.name, self._at, self._size_of_next, self._entry.identity).data
            except ChangedError:
                self._go_on()
                return
            keep_block(self._entry, self._at, data)
        self._block, self._start = data, self._at
        self._size_of_next = min(2 * self._size_of_next, _MOST_BYTES)

    def _go_on(self) -> None:
        """Continue in the object that has replaced the one that was read; raise ChangedError for another one."""
        known = self._block[-_OVERLAP_BYTES:] if self._at == self._start + len(self._block) else b""
        start = self._at - len(known)
        part = self._place.read_range(self.name, start, len(known) + self._size_of_next, None)
        if not known or not part.data.startswith(known):
            raise ChangedError(self.name)
        self._block, self._start, self._entry = part.data, start, part.entry
