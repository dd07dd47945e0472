"""The places whose runs are shown: each has a name, and gives its runs their ids."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE, stream_name
from toyspec.places.addresses import is_address, public

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def roots_of(texts: Sequence[str]) -> list[Root]:
    """Return the roots that *texts* name, each a path, an address, or ``NAME=`` before one; no two have one name."""
    roots = [_root(text) for text in texts]
    for names in (_longer, _numbered):
        if len({root.name for root in roots}) < len(roots):
            names(roots)
    return roots


def _root(text: str) -> Root:
    name, mark, path = text.partition("=")
    if not mark or not name or not path or "/" in name or is_address(text) or os.path.exists(text):
        return Root(text)
    return Root(path, name)


def _longer(roots: Sequence[Root]) -> None:
    """Put the folder above before names that more than one root has."""
    counts = Counter(root.name for root in roots)
    for root in roots:
        above = os.path.basename(os.path.dirname(root.real.rstrip("/")))
        if counts[root.name] > 1 and above:
            root.name = f"{above}/{root.name}"


def _numbered(roots: Sequence[Root]) -> None:
    counts: Counter[str] = Counter()
    for root in roots:
        counts[root.name] += 1
        if counts[root.name] > 1:
            root.name = f"{root.name} ({counts[root.name]})"
