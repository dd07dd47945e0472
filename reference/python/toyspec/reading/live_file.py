"""Reads a file that other processes write, rotate, cut and replace.

It is identified by the open descriptor, since inodes are reused, and by its content.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.errors import StreamError
from toyspec.reading.live_bytes import LiveBytes
from toyspec.reading.stream_files import open_stream

if TYPE_CHECKING:
    from toyspec.reading.live_bytes import Content, Status


class LiveFile(LiveBytes):
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


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)
