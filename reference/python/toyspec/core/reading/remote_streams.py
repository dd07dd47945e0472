"""Locates and opens streams in places beyond the file system."""

from __future__ import annotations

import contextlib
from errno import EACCES
from typing import IO, TYPE_CHECKING, cast

from toyspec.core.errors import StreamError, StreamMissingError
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.core.places.addresses import WEB, parts_of, path_in
from toyspec.core.places.opening import place_of
from toyspec.core.places.remote_files import FIRST_BYTES, RemoteFile
from toyspec.core.reading.stream_names import STREAM_NAMES, unreadable, usual_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.places.place import Entry, Place


def locate_remote(address: str, wanted: Sequence[str] = ()) -> str:
    """Return the address of the stream *address*, or of the stream in the run directory *address*.

    The names *wanted* are tried before those of toyspec's own streams.

    Raises StreamMissingError for a directory without a stream, and StreamUnreadableError.
    """
    name = address.rpartition("/")[2]
    if name in (*wanted, *STREAM_NAMES):
        return address
    try:
        place = place_of(address)
        known = (*wanted, *STREAM_NAMES)
        is_web = parts_of(address).scheme in WEB
        return _in_web(place, address, known) if is_web else _in_store(place, address, known)
    except OSError as error:
        raise unreadable(address, error) from error


def _in_web(place: Place, address: str, known: Sequence[str]) -> str:
    """Return the stream in a directory of a web server, which cannot be listed; a name with a dot is a file."""
    return address if _is_file(address) else entry_in_web(place, address, known).address


def _is_file(address: str) -> bool:
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
    raise StreamMissingError(address, f"the directory has neither {EVENTS_FILE} nor {METRICS_FILE}")


def _in_store(place: Place, address: str, known: Sequence[str]) -> str:
    names = place.names(address)
    if not names:
        return address
    found = stream_among(names, known)
    if found is None:
        raise StreamMissingError(address, f"the directory has neither {EVENTS_FILE} nor {METRICS_FILE}")
    return path_in(address, found)


def stream_among(names: Sequence[str], known: Sequence[str]) -> str | None:
    """Return which of *names*, those of the files of a directory, is its stream; *known* are tried first."""
    return next((name for name in known if name in names), None) or usual_name(names)


def open_remote(address: str, *, first_bytes: int = FIRST_BYTES) -> IO[bytes]:
    """Return the object at *address*, open for reading; raise StreamMissingError or StreamUnreadableError."""
    try:
        return cast("IO[bytes]", RemoteFile(address, first_bytes=first_bytes))
    except OSError as error:
        raise missing_or_unreadable(address, error) from error


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
