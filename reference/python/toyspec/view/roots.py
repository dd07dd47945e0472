"""The places whose runs are shown: each has a name, and gives its runs their ids."""

from __future__ import annotations

import os

from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE, stream_name
from toyspec.places.addresses import is_address, public


class Root:
    """A directory, a stream, or an address, with the runs at it and below."""

    def __init__(self, path: str, name: str | None = None) -> None:
        """Show *path* as *name*, by default its last part."""
        self.path = public(path)
        self.is_remote = is_address(self.path)
        self.real = self.path if self.is_remote else os.path.realpath(self.path)
        self.name = name or os.path.basename(self.real.rstrip("/")) or self.real
        self.problem: str | None = None
        """Why the last search has not found everything; None if it has."""

    def holds(self, path: str) -> bool:
        """Return whether the file at *path* is below this root, wherever links lead."""
        if self.is_remote or not os.path.islink(path):
            return True
        real = os.path.realpath(path)
        return real == self.real or real.startswith(os.path.join(self.real, ""))

    def place_of(self, path: str, *, whole: bool = False) -> str:
        """Return the path of a run below this root, with ``/``: that of its directory, or *whole*, of its stream."""
        is_bundle = stream_name(os.path.basename(path)) in (EVENTS_FILE, METRICS_FILE)
        if path == self.path or (not self.is_remote and os.path.isfile(self.path)):
            return "."
        place = os.path.dirname(path) if is_bundle and not whole else path
        if self.is_remote:
            return place[len(self.path) :].strip("/") or "."
        return os.path.relpath(place or ".", self.path).replace(os.sep, "/")
