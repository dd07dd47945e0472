"""Which file or object a stream is, and at what time: what tells it from another, and from itself before a change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.core.places.addresses import is_address
from toyspec.core.runs.walking import version_of

if TYPE_CHECKING:
    from toyspec.core.reading.live_stream import Status

Identity = tuple[int, int, int, int]
"""Device, number of the file, size in bytes, and a number that each change alters: for a file, its time."""

NO_IDENTITY: Identity = (0, 0, 0, 0)


def identity_of(status: Status) -> Identity:
    """Return the identity of what has *status*."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def identity_at(path: str) -> Identity:
    """Return the identity of the file or object at *path* now; ``NO_IDENTITY`` without one. It asks a store once."""
    try:
        return found_at(path)[1]
    except OSError:
        return NO_IDENTITY


def found_at(path: str) -> tuple[str, Identity]:
    """Return version and identity of the file or object at *path* now, as a search finds them; raise OSError."""
    if is_address(path):
        from toyspec.core.places.place import place_of
        from toyspec.core.reading.live_stream import status_of

        entry = place_of(path).status(path)
        return entry.identity, identity_of(status_of(entry.size, entry.identity))
    status = os.stat(path)
    return version_of(status), identity_of(status)


def listed_identity(path: str, size: int, version: str) -> Identity:
    """Return the identity of what a listing has found at *path*; an object is not asked for again."""
    if not is_address(path):
        return identity_at(path)
    from toyspec.core.reading.live_stream import status_of

    return identity_of(status_of(size, version))
