"""The bytes of files and objects that are sent or read in part: open once, and of one version while they are open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from toyspec.core.places.addresses import is_address
from toyspec.core.reading.stream_files import open_stream
from toyspec.view.identities import identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.view.roots import Root

_CHUNK_BYTES = 1 << 18
# Each block of an object is a request.
_REQUEST_BYTES = 1 << 22


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
