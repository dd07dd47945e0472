"""One run of those that are shown, and what is known of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from toyspec.core.reading.annotations import NONE, read_annotations
from toyspec.core.runs.stream_ends import states_of_other_ranks
from toyspec.view.opened_files import listed_identity
from toyspec.view.rows import annotated, with_ranks
from toyspec.view.scanning import ScanWork

if TYPE_CHECKING:
    from toyspec.core.reading.live_stream import Identity
    from toyspec.core.runs.discovery import Stream
    from toyspec.view.roots import Root
    from toyspec.view.scans import ScannedRun

# The ends of an object cost two requests and 128 KiB.
_CHEAP_BYTES = 256 << 10


class ViewedRun:
    """One run and what is known of it."""

    is_annotated_since = False
    """True once annotations were taken in: a row that is set later may have been made before they were written."""
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
        self.found = stream
        """What the last search has found of the stream and beside it."""
        self.identity = listed_identity(stream.path, stream.size, stream.version)
        """That of the stream when it was last looked at."""
        self.reads_ends = self.is_large
        """True until the curves of a large object are asked for: only its first and last lines are read."""
        self.ranks: dict[str, ViewedRun] = {}
        """The streams of the other ranks that were asked for, by the names of their files."""
        self.lock = threading.Lock()

    def with_what_is_beside(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return *row* with what annotations say now, as far as a search has found any, and states of other ranks."""
        found = annotated(row, read_annotations(self.path) if self.found.may_be_annotated else NONE)
        return found if self.root.is_remote else with_ranks(found, states_of_other_ranks(self.path, self.found))

    @property
    def row(self) -> dict[str, Any] | None:
        """The row of the table; None until the stream is read."""
        return self._row

    @row.setter
    def row(self, row: dict[str, Any] | None) -> None:
        self._row = self.with_what_is_beside(row) if row is not None and self.is_annotated_since else row

    @property
    def was_running(self) -> bool:
        """True if a writer had the stream open when it was read."""
        return self.row is not None and self.row["state"] == "running" and self.row_identity is not None

    def work(self) -> ScanWork:
        """Return what there is to scan."""
        return ScanWork(self.path, self.run, self.identity, self.found)

    @property
    def is_large(self) -> bool:
        """True if reading the stream whole costs much more than reading its ends."""
        return self.root.is_remote and self.identity[2] > _CHEAP_BYTES
