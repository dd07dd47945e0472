"""The places whose runs are shown: each has a name, and gives its runs their ids."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.run_files import run_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


class Root:
    """A directory, a stream, or an address, with the runs at it and below."""

    def __init__(self, path: str, name: str | None = None) -> None:
        """Show *path* as *name*, by default its last part."""
        self.path = public(path)
        self.is_remote = is_address(self.path)
        self.real = self.path if self.is_remote else os.path.realpath(self.path)
        self.name = name or os.path.basename(self.real.rstrip("/")) or self.real
        self.is_lost = False
        """Whether the root itself could not be read by the last search, or not all of a store."""
        self.problem: str | None = None
        """Why the last search has not found everything, by the first path that it could not read; None if it has."""

    def holds(self, path: str) -> bool:
        """Return whether the file at *path* is below this root, wherever links lead."""
        return self.is_remote or not os.path.islink(path) or self.has_real(os.path.realpath(path))

    def has_real(self, real: str) -> bool:
        """Return whether the path *real*, which has no links, is this root or below it."""
        return real == self.real or real.startswith(os.path.join(self.real, ""))

    def lists(self, path: str) -> bool:
        """Return whether *path*, which a search has found, is this root or below it by its name."""
        return path == self.path or path.startswith(os.path.join(self.path, ""))

    def place_of(self, path: str, *, whole: bool = False) -> str:
        """Return the path of a run below this root, with ``/``: that of its directory, or *whole*, of its stream."""
        outer = os.path.join(self.path, "")
        is_below = path.startswith(outer)
        # What is below it by its path is not asked about: there may be very many.
        if path == self.path or (not self.is_remote and not is_below and os.path.isfile(self.path)):
            return "."
        place = path if whole else run_of(path)
        if self.is_remote:
            return place[len(self.path) :].strip("/") or "."
        if is_below and len(place) > len(outer):
            return place[len(outer) :].replace(os.sep, "/")
        return os.path.relpath(place or ".", self.path).replace(os.sep, "/")


def roots_of(texts: Sequence[str]) -> list[Root]:
    """Return the roots that *texts* name, each a path, an address, or ``NAME=`` before one; no two have one name."""
    roots = [_root(text) for text in texts]
    for names in (_longer, _numbered):
        if len({root.name for root in roots}) < len(roots):
            names(roots)
    return roots


def run_id(root: Root, path: str, *, is_only: bool, taken: Container[str]) -> str:
    """Return the id of the run at *path*: its place below *root*, after its name unless it *is_only* one."""
    place = ""
    for whole in (False, True):
        place = root.place_of(path, whole=whole)
        if not is_only:
            place = root.name if place == "." else f"{root.name}/{place}"
        if place not in taken:
            break
    return place


def _root(text: str) -> Root:
    name, mark, path = text.partition("=")
    if not mark or not name or not path or "/" in name or is_address(text) or os.path.exists(text):
        name, path = "", text
    return Root(path, name or None)


def _longer(roots: Sequence[Root]) -> None:
    """Put the folder above before names that more than one root has."""
    counts = Counter(root.name for root in roots)
    for root in roots:
        above = os.path.basename(os.path.dirname(root.real.rstrip("/")))
        if counts[root.name] > 1 and above:
            root.name = f"{above}/{root.name}"


def _numbered(roots: Sequence[Root]) -> None:
    taken: set[str] = set()
    for root in roots:
        name, number = root.name, 1
        while root.name in taken:
            number += 1
            root.name = f"{name} ({number})"
        taken.add(root.name)
