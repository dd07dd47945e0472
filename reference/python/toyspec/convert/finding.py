"""Finds out which formats are at a path, which files each run is made of, and which of them cannot be read."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from toyspec.convert.databases import DATABASE_ERRORS, DATABASE_MAGIC, opened, tables_of
from toyspec.convert.format_modules import ANY_LOG, FORMATS, described, importer, load, of_packages
from toyspec.convert.sources import files_below, head_of
from toyspec.core.errors import SourceError, ToyspecError
from toyspec.core.files import open_file
from toyspec.core.findings import PathError
from toyspec.core.reading.log_detection import DialectChoice, usual_names
from toyspec.core.reading.stream_files import unpacked_head
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.formats import ForeignRun

_OWN_NAMES = ("*.db", "*.sqlite", "*.wandb", "*tfevents*", "*.parquet", "metrics.json", "meta.yaml")
_PARQUET = b"PAR1"
# Of MLflow and Trackio.
_TABLES = frozenset(["runs", "metrics", "experiments", "configs"])


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
    ours = [name for name in FORMATS if load(name).recognise(path)]
    # Those of other packages are asked where none of ours knows it.
    return ours or [name for name in of_packages() if importer(name).recognise(path)]


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
        return described(name)[0]


def unreadable(root: str, is_part: Callable[[str], bool]) -> Iterator[PathError]:
    """Yield each file at *root* or below that may be a source and cannot be read, and each such directory.

    Files that *is_part* of a run that was found are left out.
    """
    if not os.path.isdir(root):
        fact = damage_of(root)
        if fact is not None:
            yield PathError(root, fact)
        return
    refused: list[tuple[str, OSError]] = []
    names = (*_OWN_NAMES, *usual_names(DialectChoice()))
    for _, files in files_below(root, lambda name: _is_usual(name, names), refused):
        for file in files:
            fact = None if is_part(file) else damage_of(file)
            if fact is not None:
                yield PathError(file, fact)
    yield from (PathError(path, cause_of(error)) for path, error in refused)


def _is_usual(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name.removesuffix(".gz"), pattern) for pattern in patterns)


def damage_of(path: str) -> str | None:
    """Return why the file *path* cannot be read; None if it can, as far as its beginning shows."""
    try:
        head = head_of(path, len(DATABASE_MAGIC))
        if head == DATABASE_MAGIC:
            return _damage_of_database(path)
        if head.startswith(_PARQUET) and not _ends_with(path, _PARQUET):
            return "the Parquet file is cut off: it does not end with its footer"
        if path.endswith(".gz"):
            unpacked_head(path, 1)
    except OSError as error:
        return cause_of(error)
    except ToyspecError as error:
        return getattr(error, "fact", str(error))
    return None


def _ends_with(path: str, end: bytes) -> bool:
    with open_file(path) as file:
        file.seek(max(0, os.path.getsize(path) - len(end)))
        return file.read() == end


def _damage_of_database(path: str) -> str | None:
    try:
        names = tables_of(path)
        with closing(opened(path)) as database:
            for name in sorted(names & _TABLES):
                database.execute(f"SELECT * FROM {name} LIMIT 1").fetchone()  # noqa: S608 - one of those above
    except SourceError as error:
        return error.fact
    except DATABASE_ERRORS as error:
        return f"the database cannot be read: {error}"
    return None
