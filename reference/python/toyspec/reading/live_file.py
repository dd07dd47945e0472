"""Reads a file that other processes write, rotate, cut and replace, and detects changes of what was read.

A file is identified by the open descriptor, since inodes are reused, and by a fingerprint of the content, since a file
can be cut and grow again between two polls: its first line, the last committed bytes, and both ends of the rest.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from toyspec.errors import StreamError, StreamUnreadableError
from toyspec.places.addresses import is_address
from toyspec.reading.stream_files import open_stream

if TYPE_CHECKING:
    from toyspec.reading.live_object import LiveObject
    from toyspec.reading.live_parts import LiveParts

FINGERPRINT_BYTES = 4096
"""Maximum number of bytes in each part of the fingerprint."""

_COUNTED_BYTES = 1 << 20

Content = Literal["same", "uncommitted-changed", "truncated", "replaced"]
"""State of the bytes that were read.

- ``same``: the fingerprint is unchanged.
- ``uncommitted-changed``: only bytes after the last committed line were removed or changed.
- ``truncated``: the file is shorter than its committed part was.
- ``replaced``: it is as long or longer, and bytes that were read have changed.
"""


class Status(Protocol):
    """What is known of a file without reading it; ``os.stat_result`` is one."""

    @property
    def st_size(self) -> int:
        """Number of bytes."""

    @property
    def st_mtime_ns(self) -> int:
        """Another number after each change of the content."""

    @property
    def st_nlink(self) -> int:
        """Number of names that the file has."""

    @property
    def st_dev(self) -> int:
        """The device."""

    @property
    def st_ino(self) -> int:
        """Number of the file on its device."""


class Fingerprint(ABC):
    """How far something was read, and what of it was kept to notice that it has changed. It takes bounded memory."""

    path: str
    """Path of what is read."""

    is_outdated = False
    """True if what was read ends early, since an object was replaced meanwhile; until its status is asked for again."""

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """Return at most *size* bytes from *offset* on; the position does not change."""

    def located(self, line: int, offset: int) -> tuple[str, int]:  # noqa: ARG002 - one file has no need of it
        """Return the path of the file that the *line* at *offset* is in, and its number there."""
        return self.path, line

    def restart(self) -> None:
        """Go back to the first byte, as if nothing had been read."""
        self.position = 0
        """Byte offset of the next byte, counted from 0."""
        self.committed = 0
        """Byte offset after the last LF that was read."""
        self._first_line = b""
        self._last_committed = b""
        self._fragment_start = b""
        self._uncommitted = b""

    def count(self, part: bytes, start: int, end: int) -> int:
        """Return how often the one byte *part* is in the bytes from *start* to *end*."""
        found = 0
        while start < end and (data := self.read(start, min(end - start, _COUNTED_BYTES))):
            found += data.count(part)
            start += len(data)
        return found

    def skip_to(self, offset: int) -> None:
        """Move on to *offset*, which is after an LF, without reading what is before it."""
        length = min(FINGERPRINT_BYTES, offset - self.committed)
        self._last_committed = (self._last_committed + self.read(offset - length, length))[-FINGERPRINT_BYTES:]
        self._drop_fragment()
        self.position = self.committed = offset

    def take(self, data: bytes) -> None:
        """Move past *data*, which are bytes from the position."""
        if not self.committed and len(self._first_line) < FINGERPRINT_BYTES:
            line, lf, _ = (self._first_line + data[:FINGERPRINT_BYTES]).partition(b"\n")
            self._first_line = (line + lf)[:FINGERPRINT_BYTES]
        end = data.rfind(b"\n") + 1
        if end:
            self._last_committed = (self._last_committed + self._uncommitted + data[:end])[-FINGERPRINT_BYTES:]
            self._drop_fragment()
            self.committed = self.position + end
        if len(self._fragment_start) < FINGERPRINT_BYTES:
            self._fragment_start += data[end : end + FINGERPRINT_BYTES]
        self._uncommitted = (self._uncommitted + data[end:])[-FINGERPRINT_BYTES:]
        self.position += len(data)

    def drop_uncommitted(self) -> None:
        """Go back to the end of the last committed line."""
        if self.committed:
            self.position = self.committed
            self._drop_fragment()
        else:
            self.restart()

    def _drop_fragment(self) -> None:
        self._fragment_start = b""
        self._uncommitted = b""


class LiveFile(Fingerprint):
    """A regular file that is open at one position.

    Opening raises what ``open_stream`` raises; everything else raises OSError.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = open_stream(path, special="refuse")
        status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        self.restart()

    @property
    def lost_fragment(self) -> bool:
        """True when bytes after the last committed line were read, and have changed since."""
        return self.position > self.committed and not self._has_fragment(self._descriptor)

    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end of the file."""
        return _read_at(self._descriptor, self.position, size)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most *size* bytes from *offset* on; the position does not change."""
        return _read_at(self._descriptor, offset, size)

    def content(self) -> Content:
        """Compare the file with what was read of it."""
        return self._content_of(self._descriptor)

    def status(self) -> os.stat_result:
        """Return the status of the open file, whatever its name is."""
        return os.fstat(self._descriptor)

    def status_at_path(self) -> os.stat_result:
        """Return the status of what is at the path now; raise FileNotFoundError or NotADirectoryError."""
        return os.stat(self.path)

    def is_at_path(self, status: Status) -> bool:
        """Return whether *status*, that of the path now, is of this file.

        A file system that was mounted again gives the same file another device: the content then decides.
        """
        if (status.st_dev, status.st_ino) == self._identity:
            return True
        descriptor = self._open_again()
        if descriptor is None:
            return False
        if self._content_of(descriptor) in ("truncated", "replaced"):
            os.close(descriptor)
            return False
        self._adopt(descriptor)
        return True

    def reopen(self) -> None:
        """Open the path again if it still names this file; else do nothing.

        A network file system shows the writes of others when a file is opened, and drops old descriptors.
        """
        descriptor = self._open_again()
        if descriptor is not None:
            self._adopt(descriptor)

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()

    def _open_again(self) -> int | None:
        try:
            descriptor = open_stream(self.path, special="refuse")
        except StreamError:
            return None
        if os.fstat(descriptor).st_ino == self._identity[1]:
            return descriptor
        os.close(descriptor)
        return None

    def _adopt(self, descriptor: int) -> None:
        self.close()
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self._identity = (status.st_dev, status.st_ino)

    def _content_of(self, descriptor: int) -> Content:
        if self.committed:
            first, last = self._first_line, self._last_committed
            if os.fstat(descriptor).st_size < self.committed:
                return "truncated"
            if _read_at(descriptor, 0, len(first)) != first:
                return "replaced"
            if _read_at(descriptor, self.committed - len(last), len(last)) != last:
                return "replaced"
        return "same" if self._has_fragment(descriptor) else "uncommitted-changed"

    def _has_fragment(self, descriptor: int) -> bool:
        # A record that replaces a cut one may have the same bytes at its end.
        end, start = self._uncommitted, self._fragment_start
        return (
            _read_at(descriptor, self.position - len(end), len(end)) == end
            and _read_at(descriptor, self.committed, len(start)) == start
        )


AnyLiveFile: TypeAlias = "LiveFile | LiveObject | LiveParts"


def open_live(path: str) -> AnyLiveFile:
    """Return the file or object at *path*, open at its start; raise as ``open_stream`` does.

    A directory is a log in parts; one without parts is a stream that is missing.
    """
    if is_address(path):
        # Imported with the first address: start-up time counts.
        from toyspec.reading.live_object import LiveObject

        return LiveObject(path)
    try:
        return LiveFile(path)
    except StreamUnreadableError:
        # Asked afterwards: a run directory may be made at any moment.
        if not os.path.isdir(path):
            raise
    # Imported here: few logs are in parts.
    from toyspec.reading.live_parts import LiveParts

    return LiveParts(path)


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)
