"""The places whose runs are shown: each has a name, and gives its runs their ids.

A root is a directory, a stream, an address, or a catalog: its rows are made from columns, and no run is read until
it is looked at.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from toyspec.catalog.layout import MANIFEST, read_manifest
from toyspec.core.errors import CatalogError
from toyspec.core.escaping import encodable
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.run_files import run_of
from toyspec.core.runs.discovery import ranks_in
from toyspec.core.runs.rows import row_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from toyspec.view.viewed_runs import ViewedRun


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


class ShownRun(NamedTuple):
    """A run as its catalog has it, with its place below a root."""

    stream: str
    run: str
    """The id of the run."""
    identity: str
    """That of the stream and of the files beside it when the catalog read them."""
    size: int
    """Number of bytes of the stream."""
    row: bytes
    """Its row of the table, as JSON."""


class CatalogRoot(Root):
    """A root of the catalog in the directory *catalog*."""

    def __init__(self, catalog: str, path: str, name: str | None = None) -> None:
        super().__init__(path, name)
        self.catalog = catalog
        self.visited: dict[str, ViewedRun] = {}
        """The runs that were looked at since the catalog was read, by id."""

    def place_of(self, path: str, *, whole: bool = False) -> str:
        """See Root; it asks for no file."""
        if path == self.path:
            return "."
        return (path if whole else run_of(path)).replace(os.sep, "/")[len(self.path) :].strip("/") or "."

    def runs(self, *, is_only: bool) -> Iterator[ShownRun]:
        """Yield the runs below this root; unless it *is_only* one, ids begin with its name. Raise CatalogError."""
        # Imported here: other roots do not need it, and start-up time counts.
        from toyspec.catalog.reading import Catalog

        name = encodable(self.name)
        known: set[str] = set()
        for facts, identity in Catalog(self.catalog).rows():
            if not _is_below(facts.stream, self.path):
                continue
            run = run_id(self, facts.stream, is_only=is_only, taken=known)
            known.add(run)
            others = () if is_address(facts.stream) else list(ranks_in(identity))
            row = row_of(facts, run, others) | ({} if is_only else {"root": name})
            yield ShownRun(facts.stream, run, identity, facts.bytes, msgspec.json.encode(row))

    @property
    def version(self) -> tuple[int, int]:
        """A pair that changes when the catalog is written; raise OSError where it is gone."""
        status = os.stat(os.path.join(self.catalog, MANIFEST))
        return status.st_mtime_ns, status.st_ino

    @property
    def written(self) -> str:
        """When the catalog was written, for a person."""
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.version[0] / 1e9))


def catalog_roots(catalog: str, name: str | None = None) -> list[CatalogRoot]:
    """Return the roots of the catalog in the directory *catalog*, a single one as *name*; raise CatalogError."""
    paths = read_manifest(catalog).roots
    return [CatalogRoot(catalog, path, name if len(paths) == 1 else None) for path in paths]


def is_catalog(path: str) -> bool:
    """Return whether the directory *path* is a catalog."""
    if not os.path.isfile(os.path.join(path, MANIFEST)):
        return False
    try:
        read_manifest(path)
    except CatalogError as error:
        # Another version's is one too, and is said to be of another version when it is opened.
        return error.fact.startswith("layout")
    return True


def _is_below(path: str, root: str) -> bool:
    outer = root.rstrip("/" + os.sep)
    return path == root or path.startswith((f"{outer}/", outer + os.sep))


def roots_of(texts: Sequence[str]) -> list[Root]:
    """Return the roots that *texts* name, each a path, an address, or ``NAME=`` before one; no two have one name.

    Of a path that is a catalog they are the roots of the catalog. Raises CatalogError.
    """
    roots = [root for text in texts for root in _roots(text)]
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


def _roots(text: str) -> Sequence[Root]:
    name, mark, path = text.partition("=")
    if not mark or not name or not path or "/" in name or is_address(text) or os.path.exists(text):
        name, path = "", text
    if not is_address(path) and is_catalog(path):
        return catalog_roots(path, name or None)
    return [Root(path, name or None)]


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
