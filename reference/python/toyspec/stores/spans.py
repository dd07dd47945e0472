"""The local side of what is sent: bytes of an open file, and where its committed lines end."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

from toyspec.core.format.lines import end_of_lines
from toyspec.core.reading.stream_files import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES = 1 << 16

_lock = threading.Lock()


class ShortenedError(OSError):
    """The file is shorter than it was when it was opened."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EAGAIN, "it became shorter while it was read", path)


class Signature(NamedTuple):
    """What changes with a file."""

    device: int
    number: int
    size: int
    modified: int
    """Nanoseconds since the Unix epoch."""


def signature_of(status: os.stat_result) -> Signature:
    """Return the signature of a file with *status*."""
    return Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class LocalFile:
    """A regular file, open for reading; a context manager that closes it."""

    def __init__(self, path: str, *, lines: bool) -> None:
        """Open it; raise StreamError. With *lines*, it ends for its reader with its last committed line."""
        self.path = path
        self.descriptor = open_stream(path)
        status = os.fstat(self.descriptor)
        self.signature = signature_of(status)
        self.size = status.st_size
        """Number of bytes when it was opened."""
        self._ends_in_lf = False
        self.stop = end_of_lines(self.read, self.size) if lines else self.size
        """Number of bytes that may be sent."""
        self._ends_in_lf = lines and self.stop > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Return the *size* bytes from *offset* on; raise ShortenedError where they are not there any more.

        A file that was cut and has grown since has other bytes there: then no line ends where the last one did.
        """
        found = bytearray()
        while len(found) < size:
            block = _read_at(self.descriptor, offset + len(found), size - len(found))
            if not block:
                raise ShortenedError(self.path)
            found += block
        if self._ends_in_lf and size and offset + size == self.stop and found[-1:] != b"\n":
            raise ShortenedError(self.path)
        return bytes(found)

    def span(self, start: int = 0) -> Span:
        """Return what may be sent from *start* on."""
        return Span(self, start, self.stop)

    def last_line(self) -> bytes:
        """Return the last committed line without its LF; nothing if it is longer than a block, or there is none."""
        if not self.stop:
            return b""
        start = max(0, self.stop - BLOCK_BYTES)
        block = self.read(start, self.stop - start - 1)
        found = block.rfind(b"\n")
        return b"" if found < 0 < start else block[found + 1 :]


class Span(NamedTuple):
    """Bytes of an open file."""

    file: LocalFile
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    def blocks(self, size: int) -> Iterator[bytes]:
        """Yield the bytes in blocks of *size*, the last of which is shorter; raise ShortenedError."""
        for at in range(self.start, self.stop, size):
            yield self.file.read(at, min(size, self.stop - at))

    def data(self) -> bytes:
        """Return all of the bytes; raise ShortenedError."""
        return self.file.read(self.start, self.size)


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    with _lock:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)
