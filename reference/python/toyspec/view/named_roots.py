"""The roots that texts name, and the ids of the runs below them."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from toyspec.places.addresses import is_address
from toyspec.view.catalog_roots import catalog_roots, is_catalog
from toyspec.view.roots import Root

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


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
