"""Makes the directories of a log, and removes them if they stay empty."""

from __future__ import annotations

import contextlib
import errno
import os

from toyspec.core.escaping import printable
from toyspec.core.places.addresses import is_address, without_secrets


def refuse_address(path: str) -> None:
    """Raise ValueError if *path* is an address: an object cannot be appended to, so none is a log."""
    if is_address(path):
        shown = printable(without_secrets(path))
        raise ValueError(f"{shown} is an address; write the run into a folder, and copy that there")


def make_directories(path: str) -> list[str]:
    """Make the directory *path* and those above it; return those that were missing, the outermost first."""
    refuse_address(path)
    missing: list[str] = []
    place = os.path.abspath(path)
    while not os.path.isdir(place) and place != os.path.dirname(place):
        missing.insert(0, place)
        place = os.path.dirname(place)
    made: list[str] = []
    try:
        for place in missing:
            with contextlib.suppress(FileExistsError):
                os.mkdir(place)
                made.append(place)
            if not os.path.isdir(place):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    except OSError:
        remove_directories(made)
        raise
    return made


def remove_directories(made: list[str]) -> None:
    """Remove the directories that ``make_directories`` made, if they are empty."""
    for place in reversed(made):
        with contextlib.suppress(OSError):
            os.rmdir(place)
