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

    from toyspec.view.opened_files import Identity
    from toyspec.view.roots import Root, ShownRun
    from toyspec.view.scans import ScannedRun

# The ends of an object cost two requests and 128 KiB.
_CHEAP_BYTES = 256 << 10


Since = Literal["changed", "gone"]
"""What has become of a run since a catalog has read it."""


class ViewedRun:
    """One run and what is known of it.

    A search has found it, or a catalog lists it: then its row is that of the catalog, and its stream is not looked at
    before the run is.
    """

    found: ShownRun | None = None
    """What a catalog has found; None for a run of a search."""
    since: Since | None = None
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
    json: bytes | None = None
    """The row as JSON, where it is at hand."""
    row_identity: Identity | None = None
    """That of the stream when the row was made; None for a row of its ends only."""
    revision = 0
    changed_at = 0.0
    file: ScannedRun | None = None
    _row: dict[str, Any] | None = None

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
        self.ranks: dict[str, ViewedRun] = {}
        """The streams of the other ranks that were asked for, by the names of their files."""
        self.lock = threading.Lock()

    @classmethod
    def listed(cls, root: Root, found: ShownRun) -> ViewedRun:
        """Return the run that a catalog has *found*."""
        entry = cls.__new__(cls)
        entry.run, entry.root, entry.path = found.run, root, found.stream
        entry.ranks, entry.lock = {}, threading.Lock()
        entry.take(found)
        return entry

    def take(self, found: ShownRun) -> None:
        """Take what a catalog has *found*, in place of what was known."""
        self.found, self.beside = found, found.identity
        self.version = found.identity.partition(" ")[0]
        self.identity = self.row_identity = (*NO_IDENTITY[:2], found.size, NO_IDENTITY[3])
        self.is_visited, self.problem, self.since = False, None, None
        self.reads_ends = self.root.is_remote
        self._row, self.json = None, found.row

    def take_visit(self, visit: Visit) -> bool:
        """Take what a look at the stream of a run of a catalog has found; return whether the row is another one now."""
        is_new = visit.since != self.since or (self.is_visited and visit.identity != self.identity)
        if visit.since != self.since and self.found is not None:
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
        return is_new

    def take_beside(self, stream: Stream) -> None:
        """Take in what a search has found beside the stream."""
        self.beside = stream.identity
        """What changes with the stream and with the files beside it, annotations among them."""
        self.may_be_annotated = stream.may_be_annotated

    def with_what_is_beside(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return *row* with what annotations say now, as far as a search has found any, and states of other ranks."""
        found = annotated(row, read_annotations(self.path) if self.may_be_annotated else NONE)
        if self.root.is_remote:
            return found
        has_ranks = not self.beside or bool(ranks_in(self.beside))
        return with_ranks(found, states_of_other_ranks(self.path) if has_ranks else ())

    @property
    def row(self) -> dict[str, Any] | None:
        """The row of the table; None until the stream is read."""
        if self._row is None and self.json is not None:
            self._row = msgspec.json.decode(self.json)
        return self._row

    @row.setter
    def row(self, row: dict[str, Any] | None) -> None:
        if row is not None and self.since is not None:
            row = row | {"since": self.since}
        if row is not None and self.is_annotated_since:
            row = self.with_what_is_beside(row)
        self._row, self.json = row, None

    @property
    def is_unknown(self) -> bool:
        """True until there is a row."""
        return self._row is None and self.json is None

    @property
    def was_running(self) -> bool:
        """True if a writer had the stream open when it was read."""
        return self.row is not None and self.row["state"] == "running" and self.row_identity is not None

    def is_catalogued(self, identity: Identity) -> bool:
        """Return whether the row is that of a catalog, which has the findings too, and right for *identity*."""
        return self.found is not None and self.since is None and self.row_identity == identity

    def work(self) -> ScanWork:
        """Return what there is to scan."""
        return ScanWork(self.path, self.run, self.identity, self.may_be_annotated, self.beside)

    @property
    def is_large(self) -> bool:
        """True if reading the stream whole costs much more than reading its ends."""
        return self.root.is_remote and self.identity[2] > _CHEAP_BYTES


class Visit(NamedTuple):
    """What a look at a stream has found."""

    version: str
    identity: Identity
    since: Since | None = None
    problem: str | None = None
    """Why the stream cannot be read."""


def visits(entries: Sequence[ViewedRun]) -> Iterator[tuple[ViewedRun, Visit]]:
    """Yield each of *entries* with what is at its path now; a store is asked for several at once."""
    known = {entry.path: entry for entry in entries}
    for stream, visit in each_result((Stream(path, 0) for path in known), lambda stream: _visit(known[stream.path])):
        yield known[stream.path], visit()


def _visit(entry: ViewedRun) -> Visit:
    try:
        version, identity = found_at(entry.path)
    except FileNotFoundError:
        fact = "it is gone since the catalog was written"
        return Visit(entry.version, NO_IDENTITY, "gone", f"{entry.path}: {fact}")
    except OSError as error:
        return Visit(entry.version, entry.identity, entry.since, f"{entry.path}: {cause_of(error)}")
    known = "" if entry.found is None else entry.found.identity.partition(" ")[0]
    return Visit(version, identity, None if _plain(version) == _plain(known) else "changed")


def _plain(version: str) -> str:
    # Some stores quote an entity tag in an answer, and do not in a list.
    return version.removeprefix("W/").strip('"')
