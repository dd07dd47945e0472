"""Keeps what was read last of small objects: a command that reads a run twice asks the store once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.core.places.place import Entry

_MOST_BYTES = 1 << 25
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
        while sum(map(len, _blocks.values())) > _MOST_BYTES:
            del _blocks[next(iter(_blocks))]
