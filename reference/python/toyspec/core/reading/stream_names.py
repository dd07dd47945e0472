"""The names of streams, and how an error of reading one is reported: the same for files and objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.errors import StreamUnreadableError
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterable

STREAM_NAMES = (EVENTS_FILE, METRICS_FILE, f"{EVENTS_FILE}.gz", f"{METRICS_FILE}.gz")
"""Names of streams in a run directory; the first that exists is the run's."""


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
