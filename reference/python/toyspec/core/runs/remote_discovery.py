"""Finds the streams below an address: one listing of the store, whose other objects are not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.core.errors import StreamError
from toyspec.core.findings import PathError
from toyspec.core.places.addresses import WEB, parts_of, path_in
from toyspec.core.places.place import place_of
from toyspec.core.reading.stream_files import STREAM_NAMES, entry_in_web, locate_remote, stream_among, unreadable
from toyspec.core.runs import passed_over
from toyspec.core.runs.walking import (
    ENVIRONMENT,
    OF_A_BUNDLE,
    Listed,
    NoStream,
    Stream,
    is_beside,
    is_hinted,
    listing_of,
    walk,
)
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.core.places.place import Entry, Place
    from toyspec.core.runs.walking import Found, Listing


def find_remote(address: str, hints: Sequence[str]) -> Iterator[Found]:
    """Yield what ``find_streams`` yields, for an address; memory does not grow with the number of other objects."""
    try:
        place = place_of(address)
        if parts_of(address).scheme in WEB:
            yield _only(entry_in_web(place, address), address)
            return
        if address.rpartition("/")[2] in STREAM_NAMES:
            yield _only(place.status(address), address)
            return
        tree = _Tree(place, address, hints)
        if tree.is_empty:
            yield _only(place.status(address), address)
            return
    except StreamError as error:
        yield PathError(address, error.fact)
    except FileNotFoundError:
        yield PathError(address, "No such object, and none below it")
    except OSError as error:
        yield PathError(address, cause_of(error))
    else:
        anything = False
        for found in walk(address, hints, tree.listed):
            anything = True
            yield found
        if not anything:
            yield NoStream(address, not OF_A_BUNDLE.isdisjoint(tree.names))


def locate_all(address: str, names: Sequence[str], hints: Sequence[str]) -> tuple[str | None, list[Stream]]:
    """Return the stream at *address*, as ``locate_stream`` does; in a directory that is not a run, the streams below.

    A store is listed once. Raises StreamError.
    """
    is_web = parts_of(address).scheme in WEB
    if is_web or address.rpartition("/")[2] in (*names, *STREAM_NAMES):
        return locate_remote(address, names), []
    try:
        tree = _Tree(place_of(address), address, [*names, *hints], last=(*names, *STREAM_NAMES)[0])
    except OSError as error:
        raise unreadable(address, error) from error
    if tree.is_empty:
        return address, []
    among = [name for name in tree.names if not is_beside(name)]
    stream = stream_among(among, (*names, *STREAM_NAMES))
    if stream is not None:
        return path_in(address, stream), []
    return None, [found for found in walk(address, hints, tree.listed) if isinstance(found, Stream)]


def _only(entry: Entry, named: str) -> Stream:
    """Return the one stream that is *named*, itself or by its directory."""
    root = None if entry.address == named else named
    return Stream(entry.address, entry.size, root, identity=entry.identity, version=entry.identity)


class _Tree:
    """The directories below *root* that have something to read, from one listing.

    The listing ends with the file *last* in the root, if that is given.
    """

    def __init__(self, place: Place, root: str, hints: Sequence[str], *, last: str = "") -> None:
        self._root = root
        self._files: dict[str, dict[str, Entry]] = {root: {}}
        self._folders: dict[str, dict[str, str]] = {root: {}}
        self.is_empty = True
        """True if nothing is below the root: it is an object, or nothing."""
        others, example = 0, ""
        for entry in place.entries(root):
            if entry.address == root:
                continue
            self.is_empty = False
            directory, _, name = entry.address.rpartition("/")
            if name in STREAM_NAMES or name == ENVIRONMENT or is_beside(name) or is_hinted(name, hints):
                self._directory(directory)[name] = entry
            else:
                others, example = others + 1, example or entry.address
            if directory == root and name == last:
                break
        passed_over.note(root, passed_over.PassedOver(others, example))

    @property
    def names(self) -> list[str]:
        """Names of the files in the root that are of a run, or may be read."""
        return list(self._files[self._root])

    def listed(self, directory: str, hints: Sequence[str]) -> Listing:
        """Return what a search needs of *directory*."""
        return listing_of(self._files[directory], self._folders[directory], hints, _listed)

    def _directory(self, directory: str) -> dict[str, Entry]:
        """Return what was found in *directory* so far, which is a folder of the one above from now on."""
        if directory not in self._files:
            self._files[directory], self._folders[directory] = {}, {}
            above, _, name = directory.rpartition("/")
            self._directory(above)
            self._folders[above][name] = directory
        return self._files[directory]


def _listed(entry: Entry) -> Listed:
    return Listed(entry.address.rpartition("/")[2], entry.address, entry.size, entry.identity)
