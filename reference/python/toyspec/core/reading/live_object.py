"""Reads an object of a store that is replaced by longer ones: only what is new, and the last bytes before it."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from toyspec.core.places.kept_blocks import keep_block, kept_block
from toyspec.core.places.opening import place_of
from toyspec.core.places.place import ChangedError
from toyspec.core.reading.live_bytes import LiveBytes
from toyspec.core.reading.remote_streams import missing_or_unreadable

if TYPE_CHECKING:
    from toyspec.core.reading.live_bytes import Content, Status

_NEW_BYTES = 1 << 16
_MOST_BYTES = 1 << 22


class ObjectStatus(NamedTuple):
    """The status of an object, as that of a file."""

    st_size: int
    st_mtime_ns: int
    """Made from the identity of the object, not from a time."""
    st_nlink: int = 0
    st_dev: int = 0
    st_ino: int = 0


def status_of(size: int, identity: str) -> ObjectStatus:
    """Return the status of an object with *size* bytes and the *identity* that the store gives it."""
    # Some stores quote an entity tag in an answer, and do not in a list.
    mark = sha256(identity.removeprefix("W/").strip('"').encode()).digest()
    return ObjectStatus(size, int.from_bytes(mark[:7], "big"))


class LiveObject(LiveBytes):
    """An object that is read at one position. It takes bounded memory.

    An object has no descriptor that survives its replacement. Another version goes on from what was read if it has
    the last committed bytes at the same place; they are read again with the first new ones, in one request. Opening
    raises StreamMissingError or StreamUnreadableError; everything else raises OSError.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._place = place_of(path)
        self._request_bytes = _NEW_BYTES
        self._block, self._start = b"", 0
        self.restart()
        try:
            self._block, self._entry = self._place.read_range(path, 0, _NEW_BYTES, None)
        except OSError as error:
            raise missing_or_unreadable(path, error) from error
        self._compared = self._entry.identity

    @property
    def lost_fragment(self) -> bool:
        """True when bytes after the last committed line were read, and have changed since."""
        return self.position > self.committed and self.content() != "same"

    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end of the object."""
        if self.position >= self._entry.size:
            return b""
        if not self._start <= self.position < self._start + len(self._block):
            # What reads the run again, as a check does, asks the store once.
            data = kept_block(self._entry, self.position)
            if data is None:
                try:
                    data = self._place.read_range(
                        self.path, self.position, self._request_bytes, self._entry.identity
                    ).data
                except ChangedError:
                    # The next poll compares the new version with what was read.
                    self.is_outdated = True
                    return b""
                keep_block(self._entry, self.position, data)
            self._block, self._start = data, self.position
            self._request_bytes = min(2 * self._request_bytes, _MOST_BYTES)
        begin = self.position - self._start
        return self._block[begin : begin + size]

    def read(self, offset: int, size: int) -> bytes:
        """Return at most *size* bytes from *offset* on; the position does not change."""
        if self._start <= offset and offset + size <= self._start + len(self._block):
            begin = offset - self._start
            return self._block[begin : begin + size]
        wanted = max(size, _NEW_BYTES)
        self._block = self._place.read_range(self.path, offset, wanted, self._entry.identity).data
        self._start = offset
        return self._block[:size]

    def content(self) -> Content:
        """Compare the version that was seen last with what was read."""
        if self._entry.identity == self._compared:
            return "same"
        known = self._last_committed if self.committed else b""
        if self._entry.size < self.committed:
            return "truncated"
        start = self.committed - len(known)
        read = self.position - start
        self._request_bytes = _NEW_BYTES
        try:
            part = self._place.read_range(self.path, start, read + _NEW_BYTES, self._entry.identity)
        except ChangedError:
            # The next poll compares the version after it; until then nothing more is read.
            return "same"
        if not part.data.startswith(known):
            return "replaced"
        self._block, self._start = part.data, start
        self._compared = self._entry.identity
        fragment = part.data[len(known) : read]
        is_same = fragment.startswith(self._fragment_start) and fragment.endswith(self._uncommitted)
        return "same" if is_same and len(fragment) == self.position - self.committed else "uncommitted-changed"

    def restart(self) -> None:
        """Go back to the first byte, as if nothing had been read."""
        super().restart()
        self._block, self._start = b"", 0
        # The blocks that are kept begin where these end.
        self._request_bytes = _NEW_BYTES
        if hasattr(self, "_entry"):
            self._compared = self._entry.identity

    def status(self) -> ObjectStatus:
        """Return the status of the version that was seen last."""
        return status_of(self._entry.size, self._entry.identity)

    def status_at_path(self) -> ObjectStatus:
        """Return the status of the object now, which is then read; raise FileNotFoundError."""
        self._entry = self._place.status(self.path)
        self.is_outdated = False
        return self.status()

    def is_at_path(self, status: Status) -> bool:
        """Return True: what is at an address is followed, and compared by its content."""
        return status == self.status()

    def reopen(self) -> None:
        """Do nothing: each request asks the store."""

    def close(self) -> None:
        """Drop what is kept; further calls do nothing."""
        self._block = b""
