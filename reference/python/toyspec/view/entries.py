"""One run of the catalog and what is known of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from toyspec.view.identities import listed_identity
from toyspec.view.scanning import Work

if TYPE_CHECKING:
    from toyspec.runs.discovery import Stream
    from toyspec.view.identities import Identity
    from toyspec.view.roots import Root
    from toyspec.view.run_files import RunFile

# The ends of an object cost two requests and 128 KiB.
_CHEAP_BYTES = 256 << 10


class Entry:
    """One run and what is known of it."""

    def __init__(self, run: str, root: Root, stream: Stream) -> None:
        self.run = run
        self.root = root
        self.path = stream.path
        self.version = stream.version
        """The version of the stream when it was last searched for."""
        self.identity = listed_identity(stream.path, stream.size, stream.version)
        """That of the stream when it was last looked at."""
        self.reads_ends = self.is_large
        """True until the curves of a large object are asked for: only its first and last lines are read."""
        self.row: dict[str, Any] | None = None
        self.row_identity: Identity | None = None
        """That of the stream when the row was made; None for a row of its ends only."""
        self.revision = 0
        self.changed_at = 0.0
        self.file: RunFile | None = None
        self.lock = threading.Lock()

    def work(self) -> Work:
        """Return what there is to scan."""
        return Work(self.path, self.run, self.identity)

    @property
    def is_large(self) -> bool:
        """True if reading the stream whole costs much more than reading its ends."""
        return self.root.is_remote and self.identity[2] > _CHEAP_BYTES
