"""Which files belong to a run: those in its directory and below, on a disk or in a store.

The stream implies the names of some: the streams of ranks, and media. See spec/ranks.md.
"""

from __future__ import annotations

import os
import re
import stat
from itertools import count, islice, takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple

from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE, stream_name
from toyspec.core.generated.media import EXTENSIONS, OTHER
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.stream_files import STREAM_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


RANKS_BEGIN = "events.rank-"
"""What the names of the streams of ranks from 1 on begin with."""
_RANK = re.compile(rf"{re.escape(RANKS_BEGIN)}([1-9][0-9]{{0,8}})\.jsonl", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
MEDIA_FOLDER = "media"
_MEDIA = re.compile(rf"{MEDIA_FOLDER}/[0-9a-f]{{64}}\.[a-z0-9]+", re.ASCII)


def rank_of(file_name: str) -> int | None:
    """Return the rank whose stream *file_name* is: 0 for ``events.jsonl``; None for a name of another form."""
    if file_name == EVENTS_FILE:
        return 0
    found = _RANK.fullmatch(file_name)
    return None if found is None else int(found[1])


def rank_file(rank: int) -> str:
    """Return the name of the stream of *rank*, an integer from 0."""
    return EVENTS_FILE if rank == 0 else f"{RANKS_BEGIN}{rank}.jsonl"


def run_of(stream: str, own: str | None = None) -> str:
    """Return the path of the run with *stream*: its directory, or the stream where that has a name of its own.

    *own* is the name of streams in the profile of the stream. The directory of a relative path may be empty.
    """
    directory, name = os.path.split(stream)
    return directory if stream_name(name) in (EVENTS_FILE, METRICS_FILE, own) else stream


def earlier_logs(stream: str) -> list[str]:
    """Return the names of the logs that later starts of the run moved away from *stream*, newest first.

    There are none in a store.
    """
    kept = f"{stream}.prev"
    if is_address(stream) or not os.path.lexists(kept):
        return []
    numbered = (f"{kept}-{number}" for number in count(1))
    return [os.path.basename(path) for path in (kept, *reversed([*takewhile(os.path.lexists, numbered)]))]


def is_of_latest_attempt(rank: int, world_size: int | None) -> bool:
    """Return whether *rank* is one of the *world_size* processes of the latest attempt; True where that is not known.

    A run that went on with fewer processes keeps the logs of the others.
    """
    return world_size is None or rank < world_size


def media_file(sha256: str, media_type: str) -> str | None:
    """Return the path of a media file from the bundle, with ``/``; None if *sha256* is not 64 lower-case digits."""
    if _HASH.fullmatch(sha256) is None:
        return None
    extension = EXTENSIONS.get(media_type.partition(";")[0].strip(" \t").lower(), OTHER)
    return f"{MEDIA_FOLDER}/{sha256}.{extension}"


def is_media_file(path: str) -> bool:
    """Return whether *path* from the bundle, with ``/``, is one that ``media_file`` gives."""
    return _MEDIA.fullmatch(path) is not None


def leaves_bundle(path: str) -> bool:
    """Return whether *path* is absolute or has the part ``..``, on POSIX systems or on Windows."""
    has_drive = path[1:2] == ":" and path[:1].isascii() and path[:1].isalpha()
    return path.startswith(("/", "\\")) or has_drive or ".." in path.replace("\\", "/").split("/")


def rank_streams(directory: str) -> dict[int, str]:
    """Return the paths of the streams in *directory* by their ranks, in the order of ranks; raise OSError."""
    with os.scandir(directory or os.curdir) as entries:
        found = {rank: entry.name for entry in entries if (rank := rank_of(entry.name)) is not None and entry.is_file()}
    return {rank: os.path.join(directory, name) for rank, name in sorted(found.items())}


def ranks_beside(stream: str) -> dict[int, str]:
    """Return the paths of the streams of other ranks beside *stream*, that of rank 0, in the order of ranks.

    It is empty for a stream of another name, and for a directory that cannot be listed, which an address is.
    """
    directory, name = os.path.split(stream)
    if rank_of(name) != 0:
        return {}
    try:
        return {rank: path for rank, path in rank_streams(directory).items() if rank}
    except OSError:
        return {}


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
    # Imported here: start-up time counts.
    from pathlib import PurePosixPath

    from toyspec.core.places.place import place_of

    found = list(islice(place_of(address).entries(address), _MOST_OBJECTS))
    files = [RunFile(entry.address[len(address) + 1 :], entry.address, entry.size) for entry in found]
    runs = {folder for folder, _, name in (file.name.rpartition("/") for file in files) if is_stream_name(name)}
    for file in files:
        folders = set(map(str, PurePosixPath(file.name).parents)) - {"."}
        is_of_run = below == "all" or folders.isdisjoint(runs - {""})
        if is_of_run and (below != "media" or folders <= {MEDIA_FOLDER}):
            yield file
