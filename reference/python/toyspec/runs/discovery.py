"""Finds the streams below a path: see spec/bundle.md."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import msgspec

from toyspec.findings import PathError
from toyspec.format.profiles import MANIFEST_FILE
from toyspec.reading.stream_files import STREAM_NAMES
from toyspec.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_INPUT = "-"
SIDECARS = (MANIFEST_FILE, "flow.json")
"""Names of the files beside a stream that belong to its run."""


class Stream(msgspec.Struct, frozen=True):
    """A stream to check."""

    path: str
    size: int
    """Size in bytes when it was found; 0 where it is not known."""
    root: str | None = None
    """The directory that was named and searched; None where the stream itself was named."""

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


def find_streams(path: str) -> Iterator[Found]:
    """Yield the stream at *path*, or every stream in the directory and below it, in the order of their names.

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
    for found in _walk(path):
        anything = True
        yield found
    if not anything:
        yield NoStream(path, any(os.path.lexists(os.path.join(path, name)) for name in SIDECARS))


def _walk(root: str) -> Iterator[Stream | PathError]:
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield PathError(directory, cause_of(error))
            continue
        for entry in entries:
            if entry.name in STREAM_NAMES and entry.is_file():
                yield Stream(entry.path, _size(entry), root)
        pending += [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0
