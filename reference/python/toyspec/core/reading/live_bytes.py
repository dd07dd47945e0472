"""What is read at one position while others write it, and how its changes are noticed.

Content is known by a fingerprint, since a file can be cut and grow again between two polls: its first line, the last
committed bytes, and both ends of the rest. ``live_stream`` opens what is at a path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


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


class LiveBytes(ABC):
    """Bytes that grow: how far they were read, and what was kept to notice that they have changed.

    It takes bounded memory. Opening raises StreamMissingError or StreamUnreadableError; everything else raises OSError.
    """

    path: str
    """Path of what is read."""

    is_outdated = False
    """True if what was read ends early, since an object was replaced meanwhile; until its status is asked for again."""

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """Return at most *size* bytes from *offset* on; the position does not change."""

    @abstractmethod
    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end."""

    @property
    @abstractmethod
    def lost_fragment(self) -> bool:
        """True when bytes after the last committed line were read, and have changed since."""

    @abstractmethod
    def content(self) -> Content:
        """Compare what is there with what was read of it."""

    @abstractmethod
    def status(self) -> Status:
        """Return the status of what is open, whatever its name is."""

    @abstractmethod
    def status_at_path(self) -> Status:
        """Return the status of what is at the path now; raise FileNotFoundError or NotADirectoryError."""

    @abstractmethod
    def is_at_path(self, status: Status) -> bool:
        """Return whether *status*, that of the path now, is of what is open."""

    @abstractmethod
    def reopen(self) -> None:
        """Open the path again if it still names this; else do nothing."""

    @abstractmethod
    def close(self) -> None:
        """Release it; further calls do nothing."""

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

    def _has_fragment(self, read: Callable[[int, int], bytes]) -> bool:
        """Return whether *read* gives the uncommitted bytes that were read, by both their ends."""
        # A record that replaces a cut one may have the same bytes at its end.
        end, start = self._uncommitted, self._fragment_start
        return read(self.position - len(end), len(end)) == end and read(self.committed, len(start)) == start

    def _has_committed(self, read: Callable[[int, int], bytes]) -> bool:
        """Return whether *read* gives the committed lines that were read, by both their ends."""
        first, last = self._first_line, self._last_committed
        is_begun = not self.committed or read(0, len(first)) == first
        return is_begun and read(self.committed - len(last), len(last)) == last

    def _drop_fragment(self) -> None:
        self._fragment_start = b""
        self._uncommitted = b""
