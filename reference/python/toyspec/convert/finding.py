"""Finds out which formats are at a path, and which files each run is made of."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from toyspec.convert.format_modules import ANY_LOG, HOMES, importer, load
from toyspec.convert.unreadable import damage_of
from toyspec.errors import ToyspecError

if TYPE_CHECKING:
    from toyspec.convert.formats import ForeignRun
    from toyspec.reading.log_detection import DialectChoice


def recognised(path: str, dialect: DialectChoice | None = None) -> list[str]:
    """Return the names of the formats of what is at *path*, a file or a directory; ANY_LOG, the last, for dialects.

    A file has one format at most. *dialect* says how logs of other programs are read.
    Raise OSError if it cannot be read.
    """
    found = _own_formats(path)
    if os.path.isdir(path):
        return [*found, ANY_LOG] if importer(ANY_LOG, dialect).recognise(path) else found
    return found[:1] or ([ANY_LOG] if importer(ANY_LOG, dialect).recognise(path) else [])


def _own_formats(path: str) -> list[str]:
    return [name for name in HOMES if hasattr(load(name), "find_runs") and load(name).recognise(path)]


class FileOwners:
    """The files and directories that runs are made of."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, str]] = {}

    def add(self, name: str, run: ForeignRun) -> None:
        """Take in what *run*, in the format *name*, is made of."""
        for part in run.parts or (run.source,):
            # The source of one run of several has a mark behind its path.
            source = run.source if os.path.lexists(run.source) else part
            self._owners.setdefault(os.path.abspath(part), (name, source))

    def owner_of(self, path: str) -> tuple[str, str] | None:
        """Return format and path of the run that the file *path* is a part of; None if there is none."""
        part = os.path.abspath(path)
        while part not in self._owners:
            above = os.path.dirname(part)
            if above == part:
                return None
            part = above
        return self._owners[part]


class ImportableRuns:
    """What can be imported at a path and below."""

    def __init__(self, root: str) -> None:
        """Find the runs at *root*, a file or a directory."""
        self._parts = FileOwners()
        names: list[str] = []
        with suppress(OSError):
            names = _own_formats(root)
        for name in names:
            # What is wrong with a source, and the package that it needs, is reported when it is imported.
            with suppress(OSError, ToyspecError, ImportError):
                for run in importer(name).find_runs(root):
                    self._parts.add(name, run)

    def part_of(self, path: str) -> tuple[str, str] | None:
        """Return format and path of the run that the file *path* belongs to; None if there is none."""
        return self._parts.owner_of(path)

    def format_of(self, path: str) -> str | None:
        """Return the format of the file *path*, whatever lies beside it; None if it is not known."""
        with suppress(OSError):
            return next(iter(_own_formats(path)), None)
        return None

    def damage_of(self, path: str) -> str | None:
        """Return why the file *path* cannot be read; None if it can."""
        return damage_of(path)

    def title_of(self, name: str) -> str:
        """Return the title of the format *name*."""
        return importer(name).FORMAT.title
