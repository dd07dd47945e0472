"""One run of those that are shown, what is known of it, and whether its stream is still as a catalog has read it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.reading.annotations import NONE, read_annotations
from toyspec.core.runs.discovery import Stream, each_result, ranks_in
from toyspec.core.runs.rows import annotated, with_ranks
from toyspec.core.runs.stream_ends import states_of_other_ranks
from toyspec.core.system_calls import cause_of
from toyspec.view.opened_files import NO_IDENTITY, found_at, listed_identity
from toyspec.view.scanning import ScanWork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.core.reading.annotations import Annotations
    from toyspec.view.opened_files import Identity
    from toyspec.view.roots import CatalogRoot, Root, ShownRun
    from toyspec.view.scans import ScannedRun

# The ends of an object cost two requests and 128 KiB.
_CHEAP_BYTES = 256 << 10


class ViewedRun:
    """One run and what is known of it."""

    is_visited = True
    """Whether the stream was looked at."""
    problem: str | None = None
    """Why the stream cannot be read; None if nothing is known against it."""
    may_be_annotated = True
    """False where the search has found no annotations beside the stream, so that none are asked for."""
    alerts: dict[str, int] = {}  # noqa: RUF012 - another one takes its place
    """The incidents that were counted and those of them that have not ended, as members of the row."""
    counted: Identity | None = None
    """The identity of the stream when they were counted, or when it began."""
    next_count = 0.0
    """When they may be counted again."""
    is_annotated_since = False
    """True once annotations were taken in: a row that is set later may have been made before they were written."""

    def __init__(self, run: str, root: Root, stream: Stream) -> None:
        self.run = run
        self.root = root
        self.path = stream.path
        self.version = stream.version
        """The version of the stream when it was last searched for."""
        self.take_beside(stream)
        self.identity = listed_identity(stream.path, stream.size, stream.version)
        """That of the stream when it was last looked at."""
        self.reads_ends = self.is_large
        """True until the curves of a large object are asked for: only its first and last lines are read."""
        self._row: dict[str, Any] | None = None
        self.row_identity: Identity | None = None
        """That of the stream when the row was made; None for a row of its ends only."""
        self.revision = 0
        self.changed_at = 0.0
        self.file: ScannedRun | None = None
        self.lock = threading.Lock()

    def take_beside(self, stream: Stream) -> None:
        """Take in what a search has found beside the stream."""
        self.beside = stream.identity
        """What changes with the stream and with the files beside it, annotations among them."""
        self.may_be_annotated = stream.may_be_annotated

    def annotations(self) -> Annotations:
        """Return what the annotations say, as far as the search has found any."""
        return read_annotations(self.path) if self.may_be_annotated else NONE

    def with_what_is_beside(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return *row* with what annotations say now, and with the states of other ranks."""
        found = annotated(row, self.annotations())
        if self.root.is_remote:
            return found
        has_ranks = not self.beside or bool(ranks_in(self.beside))
        return with_ranks(found, states_of_other_ranks(self.path) if has_ranks else ())

    @property
    def row(self) -> dict[str, Any] | None:
        """The row of the table; None until the stream is read."""
        return self._row

    @row.setter
    def row(self, row: dict[str, Any] | None) -> None:
        self._row = self._as_annotated(row)

    def _as_annotated(self, row: dict[str, Any] | None) -> dict[str, Any] | None:
        return self.with_what_is_beside(row) if row is not None and self.is_annotated_since else row

    @property
    def json(self) -> bytes | None:
        """The row as JSON, where it is at hand."""
        return None

    @property
    def is_listed(self) -> bool:
        """Whether the row is that of a catalog."""
        return False

    @property
    def is_unknown(self) -> bool:
        """True until there is a row."""
        return self.row is None

    @property
    def was_running(self) -> bool:
        """True if a writer had the stream open when it was read."""
        return self.row is not None and self.row["state"] == "running" and self.row_identity is not None

    def is_catalogued(self, identity: Identity | None) -> bool:
        """Return whether the row is that of a catalog, which has the findings too, and right for *identity*."""
        return self.is_listed and self.row_identity is not None and self.row_identity == identity

    def work(self) -> ScanWork:
        """Return what there is to scan."""
        return ScanWork(self.path, self.run, self.identity, self.may_be_annotated, self.beside)

    @property
    def is_large(self) -> bool:
        """True if reading the stream whole costs much more than reading its ends."""
        return self.root.is_remote and self.identity[2] > _CHEAP_BYTES


Since = Literal["changed", "gone"]
"""What has become of a run since a catalog has read it."""


class ViewedCatalogRun(ViewedRun):
    """A run whose row is that of a catalog. Its stream is not looked at before the run is."""

    root: CatalogRoot

    def __init__(self, root: CatalogRoot, found: ShownRun, revision: int) -> None:
        self.run, self.root, self.path = found.run, root, found.stream
        self.changed_at = 0.0
        self.file = None
        self.lock = threading.Lock()
        self.take(found, revision)

    def take(self, found: ShownRun, revision: int) -> None:
        """Take what a catalog has *found*, in place of what was known."""
        self.found, self.revision, self.beside = found, revision, found.identity
        self.version = found.identity.partition(" ")[0]
        self.identity = self.row_identity = (*NO_IDENTITY[:2], found.size, NO_IDENTITY[3])
        self.is_visited, self.problem = False, None
        self.root.visited.pop(self.run, None)
        self.since: Since | None = None
        self.reads_ends = self.root.is_remote
        self._row = None
        self._json: bytes | None = found.row

    def take_visit(self, visit: Visit) -> bool:
        """Take what a look at the stream has found; return whether the row is another one now."""
        is_new = visit.since != self.since or (self.is_visited and visit.identity != self.identity)
        if visit.since != self.since:
            self.since = visit.since
            self.row = msgspec.json.decode(self.found.row)
        self.problem, self.version = visit.problem, visit.version
        # What cannot be read is looked at again.
        self.is_visited = visit.problem is None
        if self.is_visited:
            self.identity = visit.identity
            if visit.since is None:
                self.row_identity = visit.identity
            elif is_new:
                self.row_identity = None
        self.root.note(self)
        return is_new

    @property
    def json(self) -> bytes | None:
        """See ViewedRun."""
        return self._json

    @property
    def row(self) -> dict[str, Any] | None:
        """See ViewedRun; it is decoded when it is asked for."""
        if self._row is None and self._json is not None:
            self._row = msgspec.json.decode(self._json)
        return self._row

    @row.setter
    def row(self, row: dict[str, Any] | None) -> None:
        more = {} if self.since is None else {"since": self.since}
        self._row, self._json = self._as_annotated(None if row is None else row | more), None

    @property
    def is_unknown(self) -> bool:
        """See ViewedRun."""
        return False

    @property
    def is_listed(self) -> bool:
        """See ViewedRun."""
        return self.since is None


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
        version, identity = found_at(entry.path)
    except FileNotFoundError:
        fact = "it is gone since the catalog was written"
        return Visit(entry.version, NO_IDENTITY, "gone", f"{entry.path}: {fact}")
    except OSError as error:
        return Visit(entry.version, entry.identity, entry.since, f"{entry.path}: {cause_of(error)}")
    known = entry.found.identity.partition(" ")[0]
    return Visit(version, identity, None if _plain(version) == _plain(known) else "changed")


def _plain(version: str) -> str:
    # Some stores quote an entity tag in an answer, and do not in a list.
    return version.removeprefix("W/").strip('"')
