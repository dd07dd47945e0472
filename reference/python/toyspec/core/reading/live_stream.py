"""How a stream changes that others write: its bytes, each once, and what becomes of its file.

This is the one answer to what a rotation, a cut, a replacement, a deletion, bytes that are not there yet, and an error
that may pass mean. What reads a growing log (``follow``, the viewer, mirrors) reads it here.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toyspec.core.errors import StreamError, StreamMissingError, StreamUnreadableError
from toyspec.core.places.addresses import is_address
from toyspec.core.places.place import ChangedError, place_of
from toyspec.core.places.remote_files import keep_block, kept_block
from toyspec.core.reading.stream_files import PACKED_BYTES, is_packed, missing_or_unreadable, open_source, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


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


class ObjectStatus(NamedTuple):
    """The status of an object, as that of a file."""

    st_size: int
    st_mtime_ns: int
    """Made from the identity of the object, not from a time."""
    st_nlink: int = 0
    st_dev: int = 0
    st_ino: int = 0


Status: TypeAlias = "os.stat_result | ObjectStatus"
Identity = tuple[int, int, int, int]
"""Device, number of the file, size in bytes, and a number that each change alters: for a file, its time."""


def identity_of(status: Status) -> Identity:
    """Return the identity of what has *status*."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def status_of(size: int, identity: str) -> ObjectStatus:
    """Return the status of an object with *size* bytes and the *identity* that the store gives it."""
    # Some stores quote an entity tag in an answer, and do not in a list.
    mark = sha256(identity.removeprefix("W/").strip('"').encode()).digest()
    return ObjectStatus(size, int.from_bytes(mark[:7], "big"))


class LiveBytes(ABC):
    """Bytes that grow: how far they were read, and what was kept to notice that they have changed.

    It takes bounded memory. Opening raises StreamMissingError or StreamUnreadableError; everything else raises OSError.
    """

    path: str
    """Path of what is read."""

    is_version = False
    """True if what is read changes only when its status is asked for."""

    is_outdated = False
    """True if what was read ends early, since an object was replaced meanwhile; until its status is asked for again."""

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """Return at most *size* bytes from *offset* on; the position does not change."""

    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end."""
        return self.read(self.position, size)

    def content(self) -> Content:
        """Compare what is there with what was read of it."""
        first, last = self._first_line, self._last_committed
        if self.committed:
            if self.status().st_size < self.committed:
                return "truncated"
            if self.read(0, len(first)) != first or self.read(self.committed - len(last), len(last)) != last:
                return "replaced"
        return "same" if self.has_fragment() else "uncommitted-changed"

    def has_fragment(self) -> bool:
        """Return whether the bytes after the last committed line are still there, by both their ends."""
        # A record that replaces a cut one may have the same bytes at its end.
        end, start = self._uncommitted, self._fragment_start
        if not end:
            return True
        return self.read(self.position - len(end), len(end)) == end and self.read(self.committed, len(start)) == start

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

    def count_lines(self, start: int, end: int) -> int:
        """Return how many LFs are in the bytes from *start* to *end*."""
        found = 0
        while start < end and (data := self.read(start, min(end - start, _COUNTED_BYTES))):
            found += data.count(b"\n")
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


Change = Literal["begun", "uncommitted-changed", "truncated", "rotated", "replaced", "gone"]
"""What became of the file since the last bytes.

- ``begun``: a file is at the path, and the bytes that follow are its first.
- ``uncommitted-changed``: the bytes after the last committed line were removed or changed. What follows is in their
  place.
- ``truncated``: the file is shorter than its committed part was. What follows is read from its start.
- ``rotated``: another file is at the path; the old one was renamed, and read to its end. What follows is the new one.
- ``replaced``: another file is at the path and the old one is deleted, or bytes that were read have changed. What
  follows is read from the start.
- ``gone``: no file is at the path, and the old one was read to its end.
"""

NulBytes = Literal["doubt", "trust"]
"""A network file system may show NUL bytes in place of data to come: whether they count when seen the first time."""


def open_live(path: str) -> LiveBytes:
    """Return the file or object at *path*, open at its start; raise as ``open_stream`` does.

    A directory is a stream that is missing.
    """
    if is_address(path):
        return _LiveObject(path)
    try:
        return _LiveFile(path)
    except StreamUnreadableError:
        # Asked afterwards: a run directory may be made at any moment.
        if not os.path.isdir(path):
            raise
    # A run directory whose stream is being made looks so.
    raise StreamMissingError(path, "the directory has no log")


class LiveStream:
    """The stream at a path, as far as it was read."""

    def __init__(self, locate: Callable[[], str], *, chunk_bytes: int, nul: NulBytes = "doubt") -> None:
        """Follow what *locate* names, which raises StreamMissingError while there is none.

        At most *chunk_bytes* are yielded at once. A compressed file is unpacked, from its start after each change.
        """
        self._locate = locate
        self._chunk_bytes = chunk_bytes
        self._nul = nul
        self._file: LiveBytes | None = None
        self.is_compressed = False
        """True if the file is compressed by gzip."""
        self._has_given = False
        self._seen: tuple[int, int] | None = None
        self._doubts = False
        self._trusted = 0
        self.is_gone = False
        """True while no file is at the path."""
        self.trouble: OSError | StreamUnreadableError | None = None
        """The error of the last poll, None if it succeeded; the next one tries again."""

    @property
    def file(self) -> LiveBytes | None:
        """What is read now; None before there was anything."""
        return self._file

    @property
    def is_settled(self) -> bool:
        """False if bytes are known to be there that the last poll left to the next one."""
        return not self._doubts and (self._file is None or not self._file.is_outdated)

    @property
    def size(self) -> int:
        """Number of bytes of the file that were read."""
        if self._file is None:
            return 0
        return self.status.st_size if self.is_compressed and self._seen is not None else self._file.position

    @property
    def status(self) -> Status:
        """The status of the file before its last bytes were read: what is written meanwhile makes it another one."""
        return self._status

    def open(self) -> None:
        """Open the file at once, which is then not reported as begun; raise StreamMissingError as well."""
        self._open(open_live(self._locate()))

    def poll(self) -> Generator[bytes | Change]:
        """Yield what is new. An error of the system waits for the next poll in ``trouble``.

        Raises StreamUnreadableError if the path cannot be followed: no permission, or not a regular file.
        """
        try:
            yield from self._poll_file()
        except OSError as error:
            self.trouble = error
            self._seen = None
            self._doubts = False

    def again(self) -> Iterator[bytes]:
        """Yield all bytes from the first on, once more; raise OSError."""
        assert self._file is not None
        self._file.restart()
        yield from self._unpacked(self._file) if self.is_compressed else self._rest(self._file)

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        if self._file is not None:
            self._file.close()

    def _poll_file(self) -> Iterator[bytes | Change]:
        file = self._file
        if file is None:
            yield from self._begin()
            return
        try:
            status = file.status_at_path()
        except (FileNotFoundError, NotADirectoryError):
            yield from self._poll_without_path(file)
            return
        if file.is_at_path(status):
            self.is_gone = False
            yield from self._go_on(file, status)
        else:
            yield from self._change_over(file)

    def _begin(self) -> Iterator[bytes | Change]:
        try:
            file = open_live(self._locate())
        except StreamMissingError:
            return
        self._open(file)
        yield "begun"
        yield from self._go_on(file, file.status())

    def _open(self, file: LiveBytes) -> None:
        self._file = file
        self._status = file.status()
        self.is_gone = False
        self._forget()
        self.is_compressed = is_packed(file.peek(PACKED_BYTES))

    def _forget(self) -> None:
        self._seen = None
        self._doubts = self._has_given = False
        self._trusted = 0

    def _poll_without_path(self, file: LiveBytes) -> Iterator[bytes | Change]:
        """Yield what is new in a file that lost its name: deleted, or renamed with another one to come."""
        yield from self._go_on(file, file.status())
        if not (self.is_gone or self._doubts):
            self.is_gone = True
            yield "gone"

    def _change_over(self, old: LiveBytes) -> Iterator[bytes | Change]:
        """Yield the rest of *old*, then the content of the file that replaced it."""
        try:
            new = open_live(old.path)
        except StreamMissingError:
            return
        except StreamUnreadableError as error:
            self.trouble = error
            return
        if not self.is_compressed:
            content = old.content()
            if content == "uncommitted-changed":
                yield from self._take_back(old)
            if content in ("same", "uncommitted-changed"):
                yield from self._drain(old, "trust")
        change: Change = "rotated" if old.status().st_nlink else "replaced"
        old.close()
        self._open(new)
        yield change
        yield from self._go_on(new, new.status())

    def _go_on(self, file: LiveBytes, status: Status) -> Iterator[bytes | Change]:
        """Yield what is new in *file*, whose status is *status*."""
        seen = (status.st_size, status.st_mtime_ns)
        if seen == self._seen and not self._doubts:
            return
        if self._doubts or self.trouble is not None:
            file.reopen()
            self._doubts = False
        if self.is_compressed:
            if self._has_given:
                yield "replaced"
        else:
            yield from self._changed(file)
        self._seen = seen
        self._status = status
        self.trouble = None
        if self.is_compressed:
            try:
                for data in self._unpacked(file):
                    self._has_given = True
                    yield data
            except OSError as error:
                # It is read again when it changes: what is cut off may be still to come.
                self.trouble = error
        else:
            yield from self._drain(file, self._nul)

    def _changed(self, file: LiveBytes) -> Iterator[Change]:
        content = file.content()
        if content == "uncommitted-changed":
            yield from self._take_back(file)
        elif content != "same":
            file.restart()
            self._forget()
            self.is_compressed = is_packed(file.peek(PACKED_BYTES))
            yield content

    @staticmethod
    def _take_back(file: LiveBytes) -> Iterator[Change]:
        """Drop a fragment that a repair cut off, or that was rewritten."""
        file.drop_uncommitted()
        yield "uncommitted-changed"

    def _rest(self, file: LiveBytes) -> Iterator[bytes]:
        """Yield the content of *file* from its position on, whatever it is."""
        while data := file.peek(self._chunk_bytes):
            file.take(data)
            yield data

    def _drain(self, file: LiveBytes, nul: NulBytes) -> Iterator[bytes | Change]:
        """Yield the content of *file* from its position on, as far as it can be trusted."""
        while data := file.peek(self._chunk_bytes):
            # Since it was read, a fragment may have been cut off and overwritten by other lines.
            if b"\n" in data and not (file.is_version or file.has_fragment()):
                if file.content() != "uncommitted-changed":
                    self._seen = None
                    return
                yield from self._take_back(file)
                continue
            found = data.find(0, max(0, self._trusted - file.position)) if nul == "doubt" else -1
            if found >= 0:
                self._doubts = True
                self._trusted = file.status().st_size
                data = data[:found]
            file.take(data)
            if data:
                yield data
            if self._doubts:
                return

    def _unpacked(self, file: LiveBytes) -> Iterator[bytes]:
        with closing(open_source(file.path)) as source:
            while data := source.read(self._chunk_bytes):
                yield data


class _LiveFile(LiveBytes):
    """A regular file; it is identified by the open descriptor, since inodes are reused, and by its content."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        self._use(open_stream(path))
        self.restart()

    def read(self, offset: int, size: int) -> bytes:
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        return os.read(self._descriptor, size)

    def status(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def status_at_path(self) -> os.stat_result:
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
        before = self._descriptor
        self._use(descriptor)
        is_same = self.content() in ("same", "uncommitted-changed")
        if not is_same:
            self._use(before)
        os.close(before if is_same else descriptor)
        return is_same

    def reopen(self) -> None:
        """Open the path again if it still names this file; else do nothing.

        A network file system shows the writes of others when a file is opened, and drops old descriptors.
        """
        descriptor = self._open_again()
        if descriptor is not None:
            self.close()
            self._use(descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()

    def _use(self, descriptor: int) -> None:
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        # Asked once: a network file system may drop the descriptor.
        self._identity = (status.st_dev, status.st_ino)

    def _open_again(self) -> int | None:
        try:
            descriptor = open_stream(self.path)
        except StreamError:
            return None
        if os.fstat(descriptor).st_ino == self._identity[1]:
            return descriptor
        os.close(descriptor)
        return None


_NEW_BYTES = 1 << 16
_MOST_BYTES = 1 << 22


class _LiveObject(LiveBytes):
    """An object, which has no descriptor that survives its replacement.

    Another version goes on from what was read if it has the last committed bytes at the same place; they are read again
    with the first new ones, in one request.
    """

    is_version = True

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

    def peek(self, size: int) -> bytes:
        """Return at most *size* bytes from the position; none at the end, and none of another version."""
        kept = self._start + len(self._block) - self.position
        if self.position >= self._entry.size:
            return b""
        if not 0 < kept <= len(self._block):
            # What reads the run again, as a check does, asks the store once.
            data = kept_block(self._entry, self.position)
            self._block, self._start = data or self._requested(self.position, self._request_bytes), self.position
            if data is None and self._block:
                keep_block(self._entry, self.position, self._block)
            self._request_bytes = min(2 * self._request_bytes, _MOST_BYTES)
            kept = len(self._block)
        return self.read(self.position, min(size, kept))

    def read(self, offset: int, size: int) -> bytes:
        if size and not self._start <= offset <= offset + size <= self._start + len(self._block):
            self._block, self._start = self._requested(offset, max(size, _NEW_BYTES)), offset
        begin = offset - self._start
        return self._block[begin : begin + size]

    def _requested(self, offset: int, size: int) -> bytes:
        try:
            return self._place.read_range(self.path, offset, size, self._entry.identity).data
        except ChangedError:
            # The next poll compares the new version with what was read.
            self.is_outdated = True
            return b""

    def content(self) -> Content:
        if self._entry.identity == self._compared:
            return "same"
        # One request has the last committed bytes, what follows them, and some that are new.
        start = max(0, self.committed - FINGERPRINT_BYTES)
        self._request_bytes = _NEW_BYTES
        self._block, self._start = self._requested(start, self.position - start + _NEW_BYTES), start
        content = "same" if self.is_outdated else super().content()
        if not self.is_outdated:
            self._compared = self._entry.identity
        return content

    def take(self, data: bytes) -> None:
        """Move past *data*; the first line of an object is not compared, since that costs a request."""
        super().take(data)
        self._first_line = b""

    def restart(self) -> None:
        super().restart()
        self._block, self._start = b"", 0
        # The blocks that are kept begin where these end.
        self._request_bytes = _NEW_BYTES
        if hasattr(self, "_entry"):
            self._compared = self._entry.identity

    def status(self) -> ObjectStatus:
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
        self._block = b""
