"""Looks again and again for what changes below one root, and tells the catalog."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from toyspec.core.command_line.figures import counted
from toyspec.core.escaping import encodable
from toyspec.core.reading.log_detection import usual_names
from toyspec.core.runs.run import streams_below
from toyspec.view.opened_files import identity_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.view.live_runs import LiveRuns
    from toyspec.view.roots import Root

_POLL_SECONDS = 0.04
_IDLE_SECONDS = 0.25
_WALK_SECONDS = 1.0
# A store is asked less often: each look at a live run, and each thousand names of a search, is a request.
_REMOTE_POLL_SECONDS = 2.0
_REMOTE_WALK_SECONDS = 10.0
# A search takes at most one part in so many of the time.
_WALK_SHARE = 25


class RootWatch:
    """Watches the runs below *root* by searches, in a thread of its own."""

    def __init__(self, root: Root, catalog: LiveRuns, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self._catalog = catalog
        self._clock = clock
        self._walk_seconds = _REMOTE_WALK_SECONDS if root.is_remote else _WALK_SECONDS
        self._next_walk = 0.0
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
        errors, streams = streams_below([self.root.path], usual_names(self._catalog.dialect))
        found = {stream.path: stream for stream in streams if self.root.holds(stream.path)}
        # A store that does not answer has not lost its runs.
        is_whole = not (errors and self.root.is_remote)
        own = os.path.abspath(self.root.path)
        self.root.is_lost = any(not is_whole or os.path.abspath(each.path) == own for each in errors)
        # What cannot be read has lost its runs, and that is said too.
        then = "its runs are shown again once it can be read" if is_whole else "what is shown of it may be old"
        more = f", and {counted(len(errors) - 1, 'more path')}" if len(errors) > 1 else ""
        problem = next((f"{each.path}: {each.message}{more}; {then}" for each in errors), None)
        if problem != self.root.problem:
            self.root.problem = problem
            self._catalog.changes.add({"root": encodable(self.root.name)})
        self._catalog.take_found(self.root, found, is_whole=is_whole)

    def _run(self) -> None:
        while not self._catalog.changes.pause(self._pause_seconds()):
            began = self._clock()
            with suppress(OSError):
                for entry in self._catalog.hot(self.root):
                    self._catalog.look(entry, identity_at(entry.path))
                if began >= self._next_walk:
                    self.walk()
                    spent = self._clock() - began
                    self._next_walk = self._clock() + max(self._walk_seconds, _WALK_SHARE * spent)

    def _pause_seconds(self) -> float:
        if self.root.is_remote:
            return _REMOTE_POLL_SECONDS
        return _POLL_SECONDS if self._catalog.hot(self.root) else _IDLE_SECONDS
