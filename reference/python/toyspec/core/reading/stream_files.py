"""Locates streams and opens them for reading, without blocking on special files and without mapping memory."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import time
import zlib
from errno import EACCES
from typing import IO, TYPE_CHECKING, Literal, cast

from toyspec.core.errors import StreamError, StreamMissingError, StreamUnreadableError
from toyspec.core.files import NamedFile, descriptor_of
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.core.generated import messages
from toyspec.core.places.addresses import WEB, is_address, parts_of, path_in, public
from toyspec.core.places.place import place_of
from toyspec.core.places.remote_files import RemoteFile
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toyspec.core.places.place import Entry, Place


_GZIP_FORMAT = 31
_CHUNK_BYTES = 1 << 16


class GzipDataError(OSError):
    """Compressed data is cut off or damaged."""


class GzipData:
    """The decompressed bytes of gzip data, which may have several members."""

    def __init__(self, read: Callable[[int], bytes], head: bytes) -> None:
        """Read the data with *read*; *head* was read before and is its start."""
        self._read = read
        self._data = head
        self._member: zlib._Decompress | None = None
        self._may_hold_more = False
        self._given = 0

    def read(self, size: int) -> bytes:
        """Return at least one and at most *size* bytes, none at the end.

        Raises GzipDataError, and what reading raises.
        """
        while True:
            if not self._data and not self._may_hold_more:
                self._data = self._read(_CHUNK_BYTES)
                if not self._data:
                    if self._member is not None:
                        raise GzipDataError(messages.gzip_cut(size=self._given))
                    return b""
            found = self._decompressed(size)
            if found:
                self._given += len(found)
                return found

    def _decompressed(self, size: int) -> bytes:
        if self._member is None:
            # Padding may follow a member.
            self._data = self._data.lstrip(b"\0")
            if not self._data:
                return b""
            self._member = zlib.decompressobj(_GZIP_FORMAT)
        member = self._member
        try:
            found = member.decompress(self._data, size)
        except zlib.error as error:
            reason = str(error).rpartition(": ")[2]
            raise GzipDataError(messages.gzip_damaged(size=self._given, reason=reason)) from None
        self._may_hold_more = len(found) == size and not member.eof
        self._data = member.unconsumed_tail
        if member.eof:
            self._data, self._member = member.unused_data, None
        return found


class OtherText:
    """The lines of a text in UTF-16, or of a table whose rows end in CR, as UTF-8 with LF."""

    def __init__(self, read: Callable[[int], bytes], head: bytes) -> None:
        """Read the text with *read*; *head* was read before and is its start."""
        self._read = read
        encoding = "utf-16" if head.startswith(_UTF16_MARKS) else "utf-8"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._has_lf = encoding == "utf-16"
        self._data = self._lines(head)

    def read(self, size: int) -> bytes:
        """Return at least one and at most *size* bytes, none at the end; raise what reading raises."""
        while not self._data and (chunk := self._read(_CHUNK_BYTES)):
            self._data = self._lines(chunk)
        found, self._data = self._data[:size], self._data[size:]
        return found

    def _lines(self, chunk: bytes) -> bytes:
        text = self._decoder.decode(chunk).encode()
        return text if self._has_lf else text.replace(b"\r", b"\n")


def is_packed(head: bytes) -> bool:
    """Return whether a file that begins with *head* is read as other bytes: gzip data, UTF-16, or a table with CR.

    Its first ``PACKED_BYTES`` decide, so that whoever reads it decides alike.
    An object in UTF-16, or before a CR, is none of these: streams of toyspec are UTF-8, and their lines end in LF.
    """
    head = head[:PACKED_BYTES]
    if head.startswith(_UTF16_MARKS):
        return len(head) >= _TELLING_BYTES and b"{" not in head[2:4]
    rows = head.split(b"\r") if b"\n" not in head and head[:1] != b"{" else []
    is_table = len(rows) > _FEWEST_ROWS and any(
        len({row.count(mark) for row in rows[:-1]} - {0}) == 1 for mark in _CELLS
    )
    return is_table or head.startswith(GZIP_MAGIC)


PACKED_BYTES = 1 << 9
_TELLING = (b"\x1f", b"\xff", b"\xfe")
_TELLING_BYTES = 4
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CELLS = (b",", b"\t", b";")
_FEWEST_ROWS = 2
_RESTING_SECONDS = 60
STREAM_NAMES = (EVENTS_FILE, METRICS_FILE, f"{EVENTS_FILE}.gz", f"{METRICS_FILE}.gz")
"""Names of streams in a run directory; the first that exists is the run's."""
_NO_STREAM = f"the directory has neither {EVENTS_FILE} nor {METRICS_FILE}"


def usual_name(names: Iterable[str]) -> str | None:
    """Return which of *names* is the usual one of another program's log; None if none is."""
    from fnmatch import fnmatchcase

    from toyspec.core.reading import readers

    return next((name for pattern in readers.dialects().files() for name in names if fnmatchcase(name, pattern)), None)


def unreadable(path: str, error: OSError, *, offset: int | None = None) -> StreamUnreadableError:
    """Return the exception for an input *error* on *path*, after *offset* bytes if some were read."""
    fact = cause_of(error)
    # Only what the system says lacks a place; damaged gzip data names its own.
    if offset is not None and error.strerror is not None:
        fact = f"{fact} after byte {offset}"
    return StreamUnreadableError(path, fact, offset=offset)


GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of gzip data."""


def locate_stream(path: str, names: Sequence[str] = ()) -> str:
    """Return the path of the stream *path*, or of the stream in the run directory *path*; addresses as well.

    *names* are tried before the names of toyspec's own streams.

    Raises StreamMissingError for a directory without a stream, and StreamUnreadableError for a place that fails and for
    a stream in a directory that is not a regular file.
    """
    if is_address(path):
        return _locate_remote(public(path), (*names, *STREAM_NAMES))
    if not os.path.isdir(path):
        return path
    for name in (*names, *STREAM_NAMES):
        stream = os.path.join(path, name)
        if may_be_there(stream):
            return found_at(stream)
    found = None
    with contextlib.suppress(OSError):
        found = usual_name(sorted(os.listdir(path)))
    if found is not None:
        return found_at(os.path.join(path, found))
    raise StreamMissingError(path, f"{_NO_STREAM}; `toyspec doctor` names what is in it")


def may_be_there(path: str) -> bool:
    """Return False if nothing has the name *path*; True also if the system cannot tell.

    What a store refuses is not there: it answers so to those who may not list it.
    """
    try:
        if is_address(path):
            place_of(path).status(path)
            return True
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        return not (is_address(path) and error.errno == EACCES)
    return True


def open_stream(path: str) -> int:
    """Return a descriptor on the file at *path*, open for reading; a FIFO or device only if it is a NamedFile.

    Raises StreamMissingError if there is no file, and StreamUnreadableError if it cannot be opened.
    """
    try:
        return descriptor_of(path)
    except (FileNotFoundError, NotADirectoryError):
        raise StreamMissingError(path, "No such file or directory") from None
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise StreamUnreadableError(path, f"not a usable path: {error}") from error


def found_at(path: str) -> str:
    """Return *path*, which was found and not named by the user; raise what ``open_stream`` raises."""
    os.close(open_stream(path))
    return path


def unpacked_head(path: str, size: int) -> tuple[bytes, bool]:
    """Return the first *size* bytes of the file at *path*, unpacked, and whether they were gzip data.

    Raise what ``open_source`` raises.
    """
    with contextlib.closing(open_source(path)) as source:
        return source.read_start(size), source.is_compressed


def read_start(path: str, size: int) -> bytes:
    """Return the first *size* bytes of the file at *path*, without unpacking; raise OSError, and as ``open_source``."""
    with contextlib.closing(open_source(path, gzip="keep")) as source:
        return source.read_start(size)


def stream_size(path: str) -> int:
    """Return the number of bytes of the file or object at *path*; raise OSError."""
    if not is_address(path):
        return os.path.getsize(path)
    return place_of(path).status(path).size


def is_compressed(path: str) -> bool:
    """Return whether the stream at *path*, or in the run directory there, is a file of gzip data; False without one."""
    try:
        return read_start(locate_stream(path), len(GZIP_MAGIC)) == GZIP_MAGIC
    except (StreamError, OSError):
        return False


def _reader(file: IO[bytes], name: str) -> Callable[[int], bytes]:
    """Return what reads *file*, which has the *name* in messages."""
    # read of a buffered object waits until the buffer is full; read1 returns what a pipe has.
    read = getattr(file, "read1", file.read)

    def checked(size: int) -> bytes:
        chunk = read(size)
        if chunk is None:
            raise BlockingIOError("the file object is non-blocking; give one that waits for data")
        if not isinstance(chunk, bytes):
            raise TypeError(f"{name} gives {type(chunk).__name__} instead of bytes; open it in binary mode")
        return chunk

    return checked


class Source:
    """The bytes of a binary file object from its position on.

    *name* is its name in messages, by default the object's own, ``-`` if it has none. What ``is_packed`` knows by its
    first bytes is unpacked unless *gzip* is ``"keep"``.
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
        self._receive = _reader(file, self.name)
        self._begin()

    def _begin(self) -> None:
        self._peeked = self._header = self._row = b""
        self._is_begun = self._keeps_gzip
        self._gzip: GzipData | OtherText | None = None

    def read(self, size: int) -> bytes:
        """Return at least one and at most *size* bytes, none at the end; raise OSError.

        A table that has not grown for a minute ends in LF, which its last row may lack.
        """
        if self._peeked:
            chunk, self._peeked = self._peeked[:size], self._peeked[size:]
            return chunk
        chunk = self._next(size)
        # Streams of toyspec are long, and none is a table.
        if self._header[:1] not in (b"{", b"["):
            chunk = chunk or self._end_of_row()
            self._header = self._header or chunk.partition(b"\n")[0]
            self._row = (self._row + chunk).rpartition(b"\n")[2][:_CHUNK_BYTES]
        return chunk

    def _end_of_row(self) -> bytes:
        """Return the LF that the last line lacks, if that has the width of the first and the file has no writer."""
        widths = [(self._header.count(mark), self._row.count(mark)) for mark in _CELLS]
        if self._start == 0 and any(0 < first == last for first, last in widths):
            with contextlib.suppress(OSError):
                if time.time() - os.fstat(self._file.fileno()).st_mtime > _RESTING_SECONDS:
                    return b"\n"
        return b""

    def _next(self, size: int) -> bytes:
        if self._gzip is not None:
            return self._gzip.read(size)
        if self._is_begun:
            return self._receive(size)
        return self._read_first(size)

    def read_start(self, size: int) -> bytes:
        """Return the next *size* bytes, fewer only at the end; raise OSError."""
        chunks = []
        while size > 0 and (chunk := self.read(min(size, _CHUNK_BYTES))):
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

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
        head = self._receive(size)
        missing = _TELLING_BYTES - len(head) if head[:1] in _TELLING else 0
        while missing > 0 and (more := self._receive(missing)):
            head, missing = head + more, missing - len(more)
        self._is_begun = True
        if not is_packed(head):
            return head
        self._gzip = (GzipData if head.startswith(GZIP_MAGIC) else OtherText)(self._receive, head)
        return self._gzip.read(size)

    @property
    def is_compressed(self) -> bool:
        """True once the first bytes have shown gzip data, or text that is read as other bytes."""
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


def open_source(path: str, *, gzip: Literal["decompress", "keep"] = "decompress") -> Source:
    """Return the file or object at *path* as a source that owns it; open and raise as open_stream does."""
    try:
        file = RemoteFile(path) if is_address(path) else io.FileIO(open_stream(path), "rb")
    except OSError as error:
        raise missing_or_unreadable(path, error) from error
    return Source(cast("IO[bytes]", file), name=path, on_close="close", gzip=gzip)


def open_named(path: str | os.PathLike[str], names: Sequence[str] = ()) -> Source:
    """Return the source of the stream that ``locate_stream`` returns; raise what that and ``open_source`` raise.

    A FIFO or device is waited for, and read to its end, if it is *path* itself.
    """
    named = os.fspath(path)
    stream = locate_stream(named, names)
    return open_source(NamedFile(stream) if stream == named else stream)


def _locate_remote(address: str, known: Sequence[str]) -> str:
    if address.rpartition("/")[2] in known:
        return address
    try:
        place = place_of(address)
        if parts_of(address).scheme in WEB:
            return address if _is_file(address) else entry_in_web(place, address, known).address
        names = place.names(address)
    except OSError as error:
        raise unreadable(address, error) from error
    if not names:
        return address
    found = next((name for name in known if name in names), None) or usual_name(names)
    if found is None:
        raise StreamMissingError(address, _NO_STREAM)
    return path_in(address, found)


def _is_file(address: str) -> bool:
    """Return whether *address* of a web server, whose directories cannot be listed, names a file: by a dot."""
    return "." in address.rpartition("/")[2] and parts_of(address).key != ""


def entry_in_web(place: Place, address: str, known: Sequence[str] = STREAM_NAMES) -> Entry:
    """Return the stream *address* of a web server, or that in the run directory *address*.

    Raises StreamMissingError for a directory without one of the names *known*, and OSError.
    """
    if _is_file(address):
        return place.status(address)
    for stream in known:
        with contextlib.suppress(FileNotFoundError):
            return place.status(path_in(address, stream))
    raise StreamMissingError(address, _NO_STREAM)


def missing_or_unreadable(address: str, error: OSError) -> StreamError:
    """Return the exception for *error*, which opening the object at *address* has raised."""
    if isinstance(error, FileNotFoundError):
        return StreamMissingError(address, "No such object")
    return unreadable(address, error)


def read_small(address: str, most_bytes: int) -> bytes | None:
    """Return the object at *address*, cut after *most_bytes*; None if there is none. Raise StreamUnreadableError.

    What may not be read counts as none: a store refuses what is not there to those who may not list it.
    """
    try:
        return place_of(address).read_range(address, 0, most_bytes, None).data
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == EACCES:
            return None
        raise unreadable(address, error) from error
