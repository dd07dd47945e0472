"""One file of this machine and its object in a place: what may be sent of it, and how the two are to each other."""

from __future__ import annotations

import errno
import os
import re
import threading
from hashlib import md5
from typing import TYPE_CHECKING, Literal, Protocol, Self

from toyspec.core.format.lines import end_of_lines
from toyspec.core.reading.live_stream import identity_of
from toyspec.core.reading.stream_files import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.places.place import Entry, FetchedBytes

Relation = Literal["same", "behind", "ahead", "other"]
"""How an object is to a file: the same bytes, the first ones of it, all of it and more, or other ones."""

LINE_BYTES = 1 << 16
"""Most bytes of a last line."""
_MD5 = re.compile(r"[0-9a-f]{32}")
_WHOLE_BYTES = 1 << 16
_END_BYTES = 1 << 12
_BLOCK_BYTES = 8 << 20

_lock = threading.Lock()


class ShortenedError(OSError):
    """The file is shorter than it was when it was opened."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EAGAIN, "it became shorter while it was read", path)


class LocalFile:
    """A regular file, open for reading; a context manager that closes it."""

    def __init__(self, path: str, *, lines: bool) -> None:
        """Open it; raise StreamError. With *lines*, it ends for its reader with its last committed line."""
        self.path = path
        self.descriptor = open_stream(path)
        status = os.fstat(self.descriptor)
        self.signature = identity_of(status)
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

    def blocks(self, size: int, start: int = 0) -> Iterator[bytes]:
        """Yield what may be sent from *start* on in blocks of *size*, the last one shorter; raise ShortenedError."""
        for at in range(start, self.stop, size):
            yield self.read(at, min(size, self.stop - at))

    def last_line(self) -> bytes:
        """Return the last committed line without its LF; nothing if it is longer than a block, or there is none."""
        if not self.stop:
            return b""
        start = max(0, self.stop - LINE_BYTES)
        block = self.read(start, self.stop - start - 1)
        found = block.rfind(b"\n")
        return b"" if found < 0 < start else block[found + 1 :]


class Target(Protocol):
    """A place that can be written. Calls raise PlaceError, and ChangedError where the object is not *known*.

    *known* is the object that the call replaces, None where there must be none.
    """

    appends: bool
    """Whether a file that grows is sent from where the object ends; otherwise whole."""

    def entries(self, address: str) -> Iterator[Entry]:
        """See Place."""

    def status(self, address: str) -> Entry:
        """See Place."""

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> FetchedBytes:
        """See Place."""

    def put(self, file: LocalFile, address: str, known: Entry | None, shared: int = 0) -> Entry:
        """Make what may be sent of *file* the content of the object, and return it.

        The object *known* has its first *shared* bytes, and no others, if these are not 0.
        """

    def copy(self, base: Entry, address: str) -> None:
        """Make *base* the content of a new object, without sending it."""


def relation(file: LocalFile, entry: Entry, place: Target) -> Relation:
    """Return how the object *entry* of *place* is to *file*, as far as that may be sent, by the ends of what both have.

    Raises ChangedError where it is another object meanwhile, and ShortenedError.
    """
    shared = min(entry.size, file.stop)
    ends = [(0, shared)] if shared <= _WHOLE_BYTES else [(shared - _END_BYTES, _END_BYTES), (0, _END_BYTES)]
    for start, size in ends if shared else []:
        if place.read_range(entry.address, start, size, entry.identity or None).data != file.read(start, size):
            return "other"
    if entry.size == file.stop:
        return "same"
    return "behind" if entry.size < file.stop else "ahead"


def has_digest_of(entry: Entry, file: LocalFile) -> bool:
    """Return whether the store's tag of *entry* is the digest of what may be sent of *file*.

    It is an MD5 digest where an object was sent at once. Size and time show no difference: two starts of a run write
    logs of one size, and clocks differ. Stores that give other tags are asked for bytes. Raises ShortenedError.
    """
    tag = entry.identity.strip('"')
    if entry.size != file.stop or _MD5.fullmatch(tag) is None:
        return False
    digest = md5(usedforsecurity=False)
    for block in file.blocks(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest() == tag


def ends_of(file: LocalFile, size: int) -> bytes:
    """Return the first and the last of the first *size* bytes of *file*; others with other content, most likely."""
    part = min(size, _END_BYTES)
    return file.read(0, part) + file.read(size - part, part)


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    with _lock:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)
