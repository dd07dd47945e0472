"""Which file or object a stream is and at what time, and its bytes: of one version while it is open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from toyspec.core.places.addresses import is_address
from toyspec.core.reading.live_stream import identity_of
from toyspec.core.reading.stream_files import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.reading.live_stream import Identity
    from toyspec.view.roots import Root

_CHUNK_BYTES = 1 << 18
# Each block of an object is a request.
_REQUEST_BYTES = 1 << 22

NO_IDENTITY: Identity = (0, 0, 0, 0)


def identity_at(path: str) -> Identity:
    """Return the identity of the file or object at *path* now; ``NO_IDENTITY`` without one. It asks a store once."""
    try:
        if is_address(path):
            from toyspec.core.places.place import place_of

            entry = place_of(path).status(path)
            return listed_identity(path, entry.size, entry.identity)
        return identity_of(os.stat(path))
    except OSError:
        return NO_IDENTITY


def listed_identity(path: str, size: int, version: str) -> Identity:
    """Return the identity of what a listing has found at *path*; an object is not asked for again."""
    if not is_address(path):
        return identity_at(path)
    from toyspec.core.reading.live_stream import status_of

    return identity_of(status_of(size, version))


class OpenFile(Protocol):
    """What is sent of a file or an object."""

    size: int
    """Number of bytes."""
    etag: str
    """Text in quotes that changes with the content."""

    def blocks(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from *begin* to *end*; fewer if the file was cut meanwhile. Raise OSError."""

    def close(self) -> None:
        """Close it; further calls do nothing."""


def open_file(path: str) -> OpenFile:
    """Return the file or object at *path*, open; raise StreamError, or PlaceError."""
    return _Object(path) if is_address(path) else _File(path)


def is_inside(root: Root, path: str, file: OpenFile) -> bool:
    """Return whether the open *file* is below *root*, also if a link was put at *path* just now."""
    if not isinstance(file, _File):
        return True
    real = os.path.realpath(path)
    if not root.has_real(real):
        return False
    try:
        return os.path.samestat(os.stat(real, follow_symlinks=False), file.status)
    except OSError:
        return False


class _File:
    def __init__(self, path: str) -> None:
        self._descriptor = open_stream(path)
        self.status = os.fstat(self._descriptor)
        self.size = self.status.st_size
        self.etag = '"{}"'.format("-".join(f"{each:x}" for each in identity_of(self.status)))

    def blocks(self, begin: int, end: int) -> Iterator[bytes]:
        os.lseek(self._descriptor, begin, os.SEEK_SET)
        while begin < end and (data := os.read(self._descriptor, min(end - begin, _CHUNK_BYTES))):
            yield data
            begin += len(data)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class _Object:
    def __init__(self, address: str) -> None:
        from toyspec.core.places.place import place_of
        from toyspec.core.reading.live_stream import status_of

        self._address = address
        self._place = place_of(address)
        self._entry = self._place.status(address)
        self.size = self._entry.size
        self.etag = f'"{status_of(self.size, self._entry.identity).st_mtime_ns:x}"'

    def blocks(self, begin: int, end: int) -> Iterator[bytes]:
        while begin < end:
            wanted = min(end - begin, _REQUEST_BYTES)
            data = self._place.read_range(self._address, begin, wanted, self._entry.identity).data
            if not data:
                return
            yield data
            begin += len(data)

    def close(self) -> None:
        pass
