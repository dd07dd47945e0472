"""Keeps what was read last of small objects: a command that reads a run twice asks the store once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from toyspec.places.place import Entry, Place

_MOST_BYTES = 1 << 25
# Of a larger one, the first blocks would be dropped before they are asked for again.
_MOST_OBJECT_BYTES = 1 << 24


class _Key(NamedTuple):
    address: str
    identity: str
    start: int


class KeptBlocks:
    """The blocks of objects of one place, at most 32 MiB of them, by entity tag, so that they are never out of date."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: dict[_Key, bytes] = {}
        self._size = 0

    def get(self, entry: Entry, start: int) -> bytes | None:
        """Return the block of the object *entry* that begins at *start*, None if it is not kept."""
        key = _Key(entry.address, entry.identity, start)
        with self._lock:
            found = self._blocks.pop(key, None)
            if found is not None:
                self._blocks[key] = found
        return found

    def keep(self, entry: Entry, start: int, data: bytes) -> None:
        """Keep a block of the object *entry*, if it is small and has an entity tag; drop the least recently used."""
        if entry.size > _MOST_OBJECT_BYTES or not entry.identity.startswith('"'):
            return
        key = _Key(entry.address, entry.identity, start)
        with self._lock:
            self._size += len(data) - len(self._blocks.pop(key, b""))
            self._blocks[key] = data
            while self._size > _MOST_BYTES:
                self._size -= len(self._blocks.pop(next(iter(self._blocks))))


_of_places: WeakKeyDictionary[Place, KeptBlocks] = WeakKeyDictionary()
_lock = threading.Lock()


def kept_blocks(place: Place) -> KeptBlocks:
    """Return what is kept of *place*."""
    with _lock:
        return _of_places.setdefault(place, KeptBlocks())
