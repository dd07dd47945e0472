"""Looks at the streams of runs whose rows are those of a catalog: whether they are as the catalog has read them."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from toyspec.places.addresses import is_address
from toyspec.reading.stream_files import parts_status
from toyspec.runs.each_result import each_result
from toyspec.runs.walking import Stream, version_of
from toyspec.system_calls import cause_of
from toyspec.view.identities import NO_IDENTITY, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.view.identities import Identity
    from toyspec.view.viewed_runs import Since, ViewedCatalogRun


class Visit(NamedTuple):
    """What a look at a stream has found."""

    version: str
    identity: Identity
    since: Since | None = None
    problem: str | None = None
    """Why the stream cannot be read."""


def visits(entries: Sequence[ViewedCatalogRun]) -> Iterator[tuple[ViewedCatalogRun, Visit]]:
    """Yield each of *entries* with what is at its path now; a store is asked for several at once."""
    known = {entry.path: entry for entry in entries}
    for stream, visit in each_result((Stream(path, 0) for path in known), lambda stream: _visit(known[stream.path])):
        yield known[stream.path], visit()


def _visit(entry: ViewedCatalogRun) -> Visit:
    try:
        version, identity = _at(entry.path)
    except FileNotFoundError:
        fact = "it is gone since the catalog was written"
        return Visit(entry.version, NO_IDENTITY, "gone", f"{entry.path}: {fact}")
    except OSError as error:
        return Visit(entry.version, entry.identity, entry.since, f"{entry.path}: {cause_of(error)}")
    known = entry.found.identity.partition(" ")[0]
    return Visit(version, identity, None if _plain(version) == _plain(known) else "changed")


def _at(path: str) -> tuple[str, Identity]:
    """Return version and identity of the stream at *path*, as a search finds them; raise OSError."""
    if is_address(path):
        from toyspec.places.opening import place_of
        from toyspec.reading.live_object import status_of

        found = place_of(path).status(path)
        return found.identity, identity_of(status_of(found.size, found.identity))
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        parts = parts_status(path)
        return f"{parts.st_nlink}-{parts.st_size}-{parts.st_mtime_ns}", identity_of(parts)
    return version_of(status), identity_of(status)


def _plain(version: str) -> str:
    # Some stores quote an entity tag in an answer, and do not in a list.
    return version.removeprefix("W/").strip('"')
