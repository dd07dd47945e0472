"""Copies what is at an address into a temporary folder: what other programs write is not made to be read in ranges."""

from __future__ import annotations

import contextlib
import os
import tempfile
from hashlib import sha256
from typing import TYPE_CHECKING

from toyspec.errors import SourceError
from toyspec.places.opening import place_of
from toyspec.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.places.place import Entry, Place

# Windows has no file name with one of these.
_NOT_IN_NAMES = frozenset('\0:*?"<>|\\') if os.name == "nt" else frozenset("\0")


@contextlib.contextmanager
def copied(address: str) -> Iterator[str]:
    """Give the path of a copy of what is at *address*, which is removed at the end; raise SourceError.

    The time of a copy is made from the identity of its object, so that an import knows a source that it has read.
    """
    with tempfile.TemporaryDirectory(prefix="toyspec-") as folder:
        target = os.path.join(folder, address.rpartition("/")[2] or "source")
        try:
            place = place_of(address)
            for entry in _entries(place, address):
                _copy(place, entry, target + entry.address.removeprefix(address).replace("/", os.sep))
        except OSError as error:
            raise SourceError(address, cause_of(error)) from None
        yield target


def _entries(place: Place, address: str) -> Iterator[Entry]:
    """Yield the object at *address*, or all below it."""
    try:
        yield place.status(address)
    except FileNotFoundError:
        anything = False
        for entry in place.entries(address):
            anything = True
            yield entry
        if not anything:
            raise


def _copy(place: Place, entry: Entry, path: str) -> None:
    parts = path.split(os.sep)
    if ".." in parts or any(_NOT_IN_NAMES & set(part) for part in parts[1:]):
        raise SourceError(entry.address, "the name of the object cannot be the name of a file here; rename it")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.writelines(place.blocks(entry.address))
    mark = int.from_bytes(sha256(entry.identity.encode()).digest()[:7], "big")
    os.utime(path, ns=(mark, mark))
