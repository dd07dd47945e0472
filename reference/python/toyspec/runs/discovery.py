"""Finds the streams below a path: see spec/bundle.md."""

from __future__ import annotations

import os
import re
import stat
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

from toyspec.findings import PathError
from toyspec.format.profiles import MANIFEST_FILE, SEAL_FILE
from toyspec.reading.stream_files import STREAM_NAMES
from toyspec.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STANDARD_INPUT = "-"
# Each checkpoint of Hugging Face's Trainer has the whole log until then.
_CHECKPOINT = re.compile(r"checkpoint-\d{1,18}", re.ASCII)
_CHECKPOINTED = "trainer_state.json"
SIDECARS = (MANIFEST_FILE, "flow.json")
"""Names of the files beside a stream that belong to its run."""


class Stream(msgspec.Struct, frozen=True):
    """A stream to check."""

    path: str
    size: int
    """Size in bytes when it was found; 0 where it is not known."""
    root: str | None = None
    """The directory that was named and searched; None where the stream itself was named."""
    is_hinted: bool = False
    """True for a file with a usual name of another program's log, which its content has to confirm."""

    @property
    def is_below(self) -> bool:
        """True where neither the stream nor the directory that it is in was named."""
        return self.root is not None and os.path.dirname(self.path) != self.root.rstrip(os.sep)


class NoStream(msgspec.Struct, frozen=True):
    """A directory that was named and has no stream in it or below."""

    path: str
    is_bundle: bool = False
    """True where it has other files of a run."""


Found = Stream | NoStream | PathError


def find_streams(path: str, *, hints: Sequence[str] = ()) -> Iterator[Found]:
    """Yield the stream at *path*, or every stream in the directory and below it, in the order of their names.

    *hints* are patterns of file names of other programs' logs; such a file is found in directories without a stream. Of
    directories ``checkpoint-<step>`` next to each other only the one with the largest step is searched for them.

    A directory that cannot be listed is a PathError and does not stop the rest. Symbolic links to
    directories are followed only where they are named; below a directory only regular files are streams.
    """
    if path == STANDARD_INPUT:
        yield Stream(path, 0)
        return
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        yield PathError(path, cause_of(error))
        return
    if not stat.S_ISDIR(status.st_mode):
        yield Stream(path, status.st_size)
        return
    anything = False
    for found in _walk(path, hints):
        anything = True
        yield found
    if not anything:
        yield NoStream(path, any(os.path.lexists(os.path.join(path, name)) for name in (*SIDECARS, SEAL_FILE)))


def _walk(root: str, hints: Sequence[str]) -> Iterator[Stream | PathError]:
    pending = [(root, hints)]
    while pending:
        directory, hints = pending.pop()
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield PathError(directory, cause_of(error))
            continue
        streams = [entry for entry in entries if entry.name in STREAM_NAMES and entry.is_file()]
        for entry in streams:
            yield Stream(entry.path, _size(entry), root)
        hinted = [] if streams else [entry for entry in entries if _is_hinted(entry, hints)]
        for entry in hinted:
            yield Stream(entry.path, _size(entry), root, is_hinted=True)
        folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        older = {entry.name for entry in folders if _CHECKPOINT.fullmatch(entry.name)}
        if older and not any(entry.name == _CHECKPOINTED for entry in hinted):
            older.remove(max(older, key=_step_of))
        pending += [(entry.path, () if entry.name in older else hints) for entry in reversed(folders)]


def is_older_checkpoint(path: str) -> bool:
    """Return whether a later ``trainer_state.json`` has everything that the one at *path* has."""
    directory, name = os.path.split(os.path.abspath(path))
    place, folder = os.path.split(directory)
    if name != _CHECKPOINTED or not _CHECKPOINT.fullmatch(folder):
        return False
    others = [os.path.join(place, each) for each in os.listdir(place) if _CHECKPOINT.fullmatch(each)]
    later = [each for each in others if _step_of(each) > _step_of(folder)]
    return any(os.path.isfile(os.path.join(each, _CHECKPOINTED)) for each in (place, *later))


def _step_of(checkpoint: str) -> int:
    return int(checkpoint.rpartition("-")[2])


def _is_hinted(entry: os.DirEntry[str], hints: Sequence[str]) -> bool:
    return any(fnmatchcase(entry.name, pattern) for pattern in hints) and entry.is_file()


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0
