"""One run of the catalog and what is known of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.reading.annotations import NONE, read_annotations
from toyspec.view.identities import NO_IDENTITY, listed_identity
from toyspec.view.scanning import ScanWork

if TYPE_CHECKING:
    from toyspec.reading.annotations import Annotations
    from toyspec.runs.walking import Stream
    from toyspec.view.catalog_roots import CatalogRoot, CataloguedRun
    from toyspec.view.identities import Identity
    from toyspec.view.roots import Root
    from toyspec.view.scanned_runs import ScannedRun
    from toyspec.view.visits import Visit

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

    @property
    def row(self) -> dict[str, Any] | None:
        """The row of the table; None until the stream is read."""
        return self._row

    @row.setter
    def row(self, row: dict[str, Any] | None) -> None:
        self._row = row

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
        return ScanWork(self.path, self.run, self.identity, self.may_be_annotated)

    @property
    def is_large(self) -> bool:
        """True if reading the stream whole costs much more than reading its ends."""
        return self.root.is_remote and self.identity[2] > _CHEAP_BYTES


Since = Literal["changed", "gone"]
"""What has become of a run since a catalog has read it."""


class ViewedCatalogRun(ViewedRun):
    """A run whose row is that of a catalog. Its stream is not looked at before the run is."""

    root: CatalogRoot

    def __init__(self, root: CatalogRoot, found: CataloguedRun, revision: int) -> None:
        self.run, self.root, self.path = found.run, root, found.stream
        self.changed_at = 0.0
        self.file = None
        self.lock = threading.Lock()
        self.take(found, revision)

    def take(self, found: CataloguedRun, revision: int) -> None:
        """Take what a catalog has *found*, in place of what was known."""
        self.found, self.revision = found, revision
        self.version = found.identity.partition(" ")[0]
        self.identity = self.row_identity = (*NO_IDENTITY[:2], found.size, NO_IDENTITY[3])
        self.is_visited, self.problem = False, None
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
        self._row, self._json = None if row is None else row | more, None

    @property
    def is_unknown(self) -> bool:
        """See ViewedRun."""
        return False

    @property
    def is_listed(self) -> bool:
        """See ViewedRun."""
        return self.since is None
