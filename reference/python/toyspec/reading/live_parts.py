"""Follows a log that a program writes as several files of one directory."""

from __future__ import annotations

import os
from errno import ESTALE
from typing import TYPE_CHECKING

from toyspec.errors import StreamMissingError
from toyspec.reading.live_bytes import LiveBytes
from toyspec.reading.parts import parts_in

if TYPE_CHECKING:
    from toyspec.reading.live_bytes import Content, Status
    from toyspec.reading.parts import PartsStatus


class LiveParts(LiveBytes):
    """The parts in a directory, to which others are added while they are read at one position.

    Parts that were read may be removed: their program has taken them into its database. Opening raises
    StreamMissingError; everything else raises OSError.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._parts = parts_in(path)
        except (FileNotFoundError, NotADirectoryError):
            raise StreamMissingError(path, "No such file or directory") from None
        if not self._parts.parts:
            # A run directory whose stream is being made looks so.
            raise StreamMissingError(path, "the directory has no log")
        super().restart()

    @property
    def lost_fragment(self) -> bool:
        """True when bytes after the last committed line were read, and have changed since."""
        return self.position > self.committed and not self._has_fragment()

    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end, and where a part is gone."""
        return self._read(self.position, size)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most *size* bytes from *offset* on; the position does not change."""
        found = b""
        while len(found) < size and (data := self._read(offset + len(found), size - len(found))):
            found += data
        return found

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return self._parts.read(offset, size)
        except OSError as error:
            if error.errno != ESTALE:
                raise
            return b""

    def content(self) -> Content:
        """Compare the parts with what was read of them."""
        first_unread = next((part for part in self._parts.parts if part.start + part.size > self.position), None)
        if first_unread is not None and not os.path.exists(os.path.join(self.path, first_unread.name)):
            return "truncated"
        if self._parts.size < self.committed:
            return "truncated"
        if self._parts.is_merged and not self._has_committed():
            return "replaced"
        return "same" if self._has_fragment() else "uncommitted-changed"

    def _has_committed(self) -> bool:
        """Return whether both ends of the committed lines are unchanged: a file may have been cut and grown again."""
        first, last = self._first_line, self._last_committed
        is_begun = not self.committed or self.read(0, len(first)) == first
        return is_begun and self.read(self.committed - len(last), len(last)) == last

    def _has_fragment(self) -> bool:
        end, start = self._uncommitted, self._fragment_start
        return self.read(self.position - len(end), len(end)) == end and self.read(self.committed, len(start)) == start

    def located(self, line: int, offset: int) -> tuple[str, int]:
        """Return the path of the part that the *line* at *offset* is in, and its number there."""
        try:
            name, number, _ = self._parts.located(offset)
        except (OSError, ValueError):
            return self.path, line
        return os.path.normpath(os.path.join(self.path, name)), number

    def restart(self) -> None:
        """Go back to the first byte of the parts that are there now."""
        super().restart()
        self._parts.close()
        self._parts = parts_in(self.path)

    def status(self) -> PartsStatus:
        """Return the status of the parts that were listed last."""
        return self._parts.status()

    def status_at_path(self) -> PartsStatus:
        """Return the status of the parts now, which are then read; raise FileNotFoundError or NotADirectoryError."""
        self._parts.update()
        return self.status()

    def is_at_path(self, status: Status) -> bool:
        """Return True: what is in the directory is followed."""
        return status == self.status()

    def reopen(self) -> None:
        """Do nothing: a part is opened when it is read."""

    def close(self) -> None:
        """Close the part that is open; further calls do nothing."""
        self._parts.close()
