"""Which files belong to a run: those in its directory and below, on a disk or in a store."""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from toyspec.core.format.run_files import MEDIA_FOLDER, rank_of
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.stream_names import STREAM_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Below = Literal["media", "own", "all"]
"""Which folders of a run are searched: that of its media, all but those of other runs, or all."""

_MOST_OBJECTS = 10_000


class RunFile(NamedTuple):
    """A file of a run."""

    name: str
    """Its path in the directory of the run, with ``/``."""
    path: str
    size: int
    """Number of bytes."""


def is_stream_name(name: str) -> bool:
    """Return whether a directory with a file *name* is that of a run."""
    return name in STREAM_NAMES or rank_of(name) is not None


def _fail(error: OSError) -> None:
    raise error


def files_of(
    directory: str, below: Below = "own", *, on_error: Callable[[OSError], object] = _fail
) -> Iterator[RunFile]:
    """Yield the regular files of the run in *directory*, a path or an address; links are left out.

    Of a store, the first 10,000 objects are looked at. Raises OSError where *directory* cannot be listed; *on_error*
    gets the errors of folders on a disk, by default to raise them.
    """
    if is_address(directory):
        yield from _objects(directory, below)
        return
    for place, folders, names in os.walk(directory, onerror=on_error):
        within = os.path.relpath(place, directory).replace(os.sep, "/")
        if within == ".":
            within = ""
            if below == "media":
                folders[:] = [MEDIA_FOLDER] if MEDIA_FOLDER in folders else []
        elif below != "all" and any(map(is_stream_name, names)):
            folders.clear()
            continue
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                # It was moved while the rest was listed.
                continue
            except OSError as error:
                on_error(error)
                continue
            if stat.S_ISREG(status.st_mode):
                yield RunFile(f"{within}/{name}" if within else name, path, status.st_size)


def _objects(address: str, below: Below) -> Iterator[RunFile]:
    from toyspec.core.places.opening import place_of

    found = list(islice(place_of(address).entries(address), _MOST_OBJECTS))
    files = [RunFile(entry.address[len(address) + 1 :], entry.address, entry.size) for entry in found]
    runs = {folder for folder, _, name in (file.name.rpartition("/") for file in files) if is_stream_name(name)}
    for file in files:
        folders = set(_above(file.name))
        is_of_run = below == "all" or folders.isdisjoint(runs - {""})
        if is_of_run and (below != "media" or folders <= {MEDIA_FOLDER}):
            yield file


def _above(name: str) -> Iterable[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
