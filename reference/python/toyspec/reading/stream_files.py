"""Locates streams and opens them for reading, without blocking on special files and without mapping memory."""

from __future__ import annotations

import io
import os
import stat
import sys
from errno import EACCES
from typing import IO, TYPE_CHECKING, Literal, cast

from toyspec.errors import StreamError, StreamMissingError, StreamUnreadableError
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.places.addresses import is_address, public
from toyspec.reading.stream_names import STREAM_NAMES, unreadable, usual_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.reading.gzip_data import GzipData

GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of gzip data."""

SpecialFiles = Literal["allow", "refuse"]
"""Whether a FIFO or a device may be read: only if the user named it."""

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0)
# Opening does not wait if a FIFO replaces the file between stat and open.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def locate_stream(path: str, names: Sequence[str] = ()) -> tuple[str, SpecialFiles]:
    """Return the path of the stream *path*, or of the stream in the run directory *path*; addresses as well.

    *names* are tried before the names of toyspec's own streams.

    Raises StreamMissingError for a directory without a stream, and StreamUnreadableError for a place that fails.
    """
    if is_address(path):
        # Imported with the first address: start-up time counts.
        from toyspec.reading.remote_streams import locate_remote

        return locate_remote(public(path), names), "refuse"
    if not os.path.isdir(path):
        return path, "allow"
    for name in (*names, *STREAM_NAMES):
        stream = os.path.join(path, name)
        if may_be_there(stream):
            return stream, "refuse"
    named = _usual_file(path)
    if named is not None:
        return named, "refuse"
    raise StreamMissingError(
        path, f"the directory has neither {EVENTS_FILE} nor {METRICS_FILE}; `toyspec doctor` names what is in it"
    )


def _usual_file(directory: str) -> str | None:
    """Return the file in *directory* that has the usual name of another program's log; None if there is none."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return None
    found = usual_name(names)
    return None if found is None else os.path.join(directory, found)


def may_be_there(path: str) -> bool:
    """Return False if nothing has the name *path*; True also if the system cannot tell.

    What a store refuses is not there: it answers so to those who may not list it.
    """
    try:
        if is_address(path):
            from toyspec.places.opening import place_of

            place_of(path).status(path)
            return True
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        return not (is_address(path) and error.errno == EACCES)
    return True


def open_stream(path: str, *, special: SpecialFiles) -> int:
    """Return a descriptor on the file at *path*, open for reading.

    A FIFO, where allowed, waits for its writer as a shell would. Raises StreamMissingError if there is no file, and
    StreamUnreadableError if it cannot be opened or is a special file that is not allowed.
    """
    try:
        mode = os.stat(path).st_mode
        waits = special == "allow" and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode))
        if not waits:
            _refuse_special(path, mode)
        flags = _FLAGS if waits else _FLAGS | _NO_WAIT
        descriptor = _open_shared(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise StreamMissingError(path, "No such file or directory") from None
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise StreamUnreadableError(path, f"not a usable path: {error}") from error
    if not waits:
        try:
            _refuse_special(path, os.fstat(descriptor).st_mode)
        except StreamUnreadableError:
            os.close(descriptor)
            raise
    return descriptor


def _open_shared(path: str, flags: int) -> int:
    """Return a descriptor that allows other processes to rename or delete the file."""
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        share_read_write_delete = 7
        handle = _winapi.CreateFile(path, _winapi.GENERIC_READ, share_read_write_delete, 0, _winapi.OPEN_EXISTING, 0, 0)
        return msvcrt.open_osfhandle(handle, flags)
    return os.open(path, flags)


def _refuse_special(path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"))
    kind = next((noun for is_kind, noun in kinds if is_kind(mode)), "device")
    raise StreamUnreadableError(path, f"a {kind}, not a regular file")


def unpacked_head(path: str, size: int) -> tuple[bytes, bool]:
    """Return the first *size* bytes of the file at *path*, unpacked, and whether they were gzip data.

    Raise what ``open_source`` raises.
    """
    source = open_source(path, special="refuse")
    try:
        head = b""
        while len(head) < size and (chunk := source.read(size - len(head))):
            head += chunk
        return head, source.is_compressed
    finally:
        source.close()


def stream_size(path: str) -> int:
    """Return the number of bytes of the file or object at *path*; raise OSError."""
    if not is_address(path):
        return os.path.getsize(path)
    from toyspec.places.opening import place_of

    return place_of(path).status(path).size


def is_compressed(path: str) -> bool:
    """Return whether the stream at *path*, or in the run directory there, is a file of gzip data; False without one."""
    try:
        stream, _ = locate_stream(path)
        if is_address(stream):
            from toyspec.reading.remote_streams import read_small

            return read_small(stream, len(GZIP_MAGIC)) == GZIP_MAGIC
        source = open_source(stream, special="refuse", gzip="keep")
        try:
            return source.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        finally:
            source.close()
    except (StreamError, OSError):
        return False


class _Input:
    """The bytes of a file object, counted."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        # read of a buffered object waits until the buffer is full; read1 returns what a pipe has.
        self._read = getattr(file, "read1", file.read)
        self._name = name
        self.received = 0

    def read(self, size: int) -> bytes:
        chunk = self._read(size)
        if chunk is None:
            raise BlockingIOError("the file object is non-blocking; give one that waits for data")
        if not isinstance(chunk, bytes):
            raise TypeError(f"{self._name} gives {type(chunk).__name__} instead of bytes; open it in binary mode")
        self.received += len(chunk)
        return chunk


class Source:
    """The bytes of a binary file object from its position on.

    *name* is its name in messages, by default the object's own, ``-`` if it has none. gzip data, known by its first
    bytes, is decompressed unless *gzip* is ``"keep"``.
    """

    def __init__(
        self,
        file: IO[bytes],
        *,
        name: str | None = None,
        on_close: Literal["close", "keep"] = "keep",
        gzip: Literal["decompress", "keep"] = "decompress",
    ) -> None:
        own_name = getattr(file, "name", "-")
        self.name = name or (own_name if isinstance(own_name, str) else "-")
        self._on_close = on_close
        self._keeps_gzip = gzip == "keep"
        self._file = file
        self._start = file.tell() if file.seekable() else None
        self._begin()

    def _begin(self) -> None:
        self._peeked = b""
        self._input = _Input(self._file, self.name)
        self._is_begun = self._keeps_gzip
        self._gzip: GzipData | None = None

    @property
    def received(self) -> int:
        """Number of bytes read from the file; compressed bytes of gzip data."""
        return self._input.received

    def read(self, size: int) -> bytes:
        """Return at least one and at most *size* bytes, none at the end; raise OSError."""
        if self._peeked:
            chunk, self._peeked = self._peeked[:size], self._peeked[size:]
            return chunk
        if self._gzip is not None:
            return self._gzip.read(size)
        if self._is_begun:
            return self._input.read(size)
        return self._read_first(size)

    def peek(self, size: int) -> bytes:
        """Return the first bytes, at most *size*, which ``read`` returns again; raise OSError.

        A pipe is read up to its first LF only, so that a live one is not waited for.
        """
        head = b""
        while len(head) < size and b"\n" not in head and (chunk := self.read(size - len(head))):
            head += chunk
        self._peeked = head
        return head

    def _read_first(self, size: int) -> bytes:
        head = self._input.read(size)
        if head == GZIP_MAGIC[:1]:
            head += self._input.read(1)
        self._is_begun = True
        if not head.startswith(GZIP_MAGIC):
            return head
        # Imported here: most streams are not compressed.
        from toyspec.reading.gzip_data import GzipData

        self._gzip = GzipData(self._input.read, head)
        return self._gzip.read(size)

    @property
    def is_compressed(self) -> bool:
        """True once the first bytes have shown gzip data."""
        return self._gzip is not None

    def measure(self) -> int | None:
        """Return the number of bytes from the start to the end at this time; None if only reading can tell."""
        if self._start is None or self._gzip is not None:
            return None
        try:
            position = self._file.tell()
            end = self._file.seek(0, os.SEEK_END)
            self._file.seek(position)
        except OSError:
            return None
        return max(0, end - self._start)

    def rewind(self) -> bool:
        """Go back to the start; return False if the source cannot be read twice."""
        if self._start is None:
            return False
        self._file.seek(self._start)
        self._begin()
        return True

    def close(self) -> None:
        """Drop the file object, and close it if this source owns it; further calls do nothing."""
        if self._on_close == "close":
            self._file.close()

    def __del__(self) -> None:
        # Dropping a reading before its end is not a leak that deserves a warning.
        if hasattr(self, "_file"):
            self.close()


def open_source(path: str, *, special: SpecialFiles, gzip: Literal["decompress", "keep"] = "decompress") -> Source:
    """Return the file or object at *path* as a source that owns it; raise as open_stream does."""
    file: IO[bytes]
    if is_address(path):
        from toyspec.reading.remote_streams import open_remote

        file = open_remote(path)
    else:
        file = cast("IO[bytes]", io.FileIO(open_stream(path, special=special), "rb"))
    return Source(file, name=path, on_close="close", gzip=gzip)
