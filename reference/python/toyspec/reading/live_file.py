"""Reads on in a file that others write, rotate, cut and replace, and knows when its content is no longer the same.

Identity is the open descriptor, since inodes are used again, and a fingerprint of the content, since a file can be
cut and grow again between two looks: its first line, what was committed last, and both ends of what was read after it.
"""

from __future__ import annotations

import os
from typing import Literal

from toyspec.errors import StreamError
from toyspec.reading.stream_files import open_stream

FINGERPRINT_BYTES = 4096
"""Number of bytes that each part of the fingerprint has at most."""

Content = Literal["same", "uncommitted-changed", "truncated", "replaced"]
"""What became of the bytes that were read.

- ``same``: the fingerprint is as it was.
- ``uncommitted-changed``: only bytes after the last committed line were taken back or changed.
- ``truncated``: the file is shorter than what was committed.
- ``replaced``: it is as long or longer, and has other bytes where it was read.
"""


class LiveFile:
    """A regular file that is open at one position. It holds bounded memory, whatever happens to the file.

    Opening raises what ``open_stream`` raises; everything else raises OSError.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = open_stream(path, special="refuse")
        status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        self.restart()

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

    @property
    def lost_fragment(self) -> bool:
        """True when bytes after the last committed line were read, and the file has others in their place now."""
        return self.position > self.committed and not self._has_fragment(self._descriptor)

    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end of the file."""
        return _read_at(self._descriptor, self.position, size)

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

    def content(self) -> Content:
        """Compare the file with what was read of it."""
        return self._content_of(self._descriptor)

    def status(self) -> os.stat_result:
        """Return the status of the open file, wherever its name is."""
        return os.fstat(self._descriptor)

    def is_at_path(self, status: os.stat_result) -> bool:
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
        """Open the path anew if it still names this file; otherwise leave things as they are.

        A network file system shows what others wrote when a file is opened, and forgets old descriptors.
        """
        descriptor = self._open_again()
        if descriptor is not None:
            self._adopt(descriptor)

    def close(self) -> None:
        """Let go of the file; further calls do nothing."""
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
        # A record that is written in place of a cut one may have the same bytes where that ended.
        end, start = self._uncommitted, self._fragment_start
        return (
            _read_at(descriptor, self.position - len(end), len(end)) == end
            and _read_at(descriptor, self.committed, len(start)) == start
        )

    def _drop_fragment(self) -> None:
        self._fragment_start = b""
        self._uncommitted = b""


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)
