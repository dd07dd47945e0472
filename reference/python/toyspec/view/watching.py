"""Looks again and again for what changes below one root, and tells the catalog."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from toyspec.core.errors import CatalogError
from toyspec.core.escaping import encodable
from toyspec.core.reading.log_detection import usual_names
from toyspec.core.runs.run import streams_below
from toyspec.view.opened_files import identity_at
from toyspec.view.roots import CatalogRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.view.live_runs import LiveRuns
    from toyspec.view.roots import Root
    from toyspec.view.viewed_runs import ViewedRun

_POLL_SECONDS = 0.04
_IDLE_SECONDS = 0.25
_WALK_SECONDS = 1.0
# A store is asked less often: each look at a live run, and each thousand names of a search, is a request.
_REMOTE_POLL_SECONDS = 2.0
_REMOTE_WALK_SECONDS = 10.0
# A search takes at most one part in so many of the time.
_WALK_SHARE = 25


class RootWatch:
    """Watches the runs below *root* in a thread of its own: a folder or a store by searches, a catalog as a file."""

    def __init__(self, root: Root, catalog: LiveRuns, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self._catalog = catalog
        self._clock = clock
        is_asked = root.is_remote and not isinstance(root, CatalogRoot)
        self._walk_seconds = _REMOTE_WALK_SECONDS if is_asked else _WALK_SECONDS
        self._next_walk = 0.0
        self._version: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._run, name=f"toyspec-view-watch {root.name}", daemon=True)

    def start(self) -> None:
        """Begin to watch, until the changes of the catalog are closed."""
        self._next_walk = self._clock() + self._walk_seconds
        self._thread.start()

    def join(self) -> None:
        """Wait for the end."""
        if self._thread.is_alive():
            self._thread.join()

    def walk(self) -> None:
        """Find the runs below the root, those that are new and those that are gone."""
        if isinstance(self.root, CatalogRoot):
            self._read_catalog(self.root)
            return
        errors, streams = streams_below([self.root.path], usual_names(self._catalog.dialect))
        found = {stream.path: stream for stream in streams if self.root.holds(stream.path)}
        # A store that does not answer has not lost its runs.
        is_whole = not (errors and self.root.is_remote)
        # A folder that is gone has lost them, and that is said too.
        then = "its runs are shown again once it can be read" if is_whole else "what is shown of it may be old"
        problem = next(
            (f"{each.path}: {each.message}; {then}" for each in errors if not is_whole or self._is_root(each.path)),
            None,
        )
        self._report(problem)
        self._catalog.take_found(self.root, found, is_whole=is_whole)

    def _read_catalog(self, root: CatalogRoot) -> None:
        """Read the catalog if it was written since it was read, and look at the runs that were looked at before."""
        if not root.is_remote:
            self._look(list(root.visited.values()))
        try:
            version = root.version
            runs = None if version == self._version else list(root.runs(is_only=len(self._catalog.roots) == 1))
        except (CatalogError, OSError) as error:
            self._report(str(error))
            return
        if runs is not None:
            self._version = version
            self._catalog.take_catalogued(root, runs)

    def _report(self, problem: str | None) -> None:
        if problem != self.root.problem:
            self.root.problem = problem
            self._catalog.changes.add({"root": encodable(self.root.name)})

    def _is_root(self, path: str) -> bool:
        return os.path.abspath(path) == os.path.abspath(self.root.path)

    def _run(self) -> None:
        while not self._catalog.changes.pause(self._pause_seconds()):
            began = self._clock()
            with suppress(OSError):
                self._look(self._catalog.hot(self.root))
                if began >= self._next_walk:
                    self.walk()
                    self._catalog.count_new_alerts()
                    spent = self._clock() - began
                    self._next_walk = self._clock() + max(self._walk_seconds, _WALK_SHARE * spent)

    def _look(self, entries: Sequence[ViewedRun]) -> None:
        if isinstance(self.root, CatalogRoot):
            self._catalog.visit(entries)
        for entry in entries:
            # Of a run that was visited just now, a writer may have closed what did not change.
            self._catalog.look(entry, entry.identity if entry.found is not None else identity_at(entry.path))

    def _pause_seconds(self) -> float:
        if self.root.is_remote:
            return _REMOTE_POLL_SECONDS
        return _POLL_SECONDS if self._catalog.hot(self.root) else _IDLE_SECONDS
