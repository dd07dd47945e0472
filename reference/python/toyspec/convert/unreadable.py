"""Finds what would be a source, but cannot be read: an import of a directory must not pass over it."""

from __future__ import annotations

import os
from contextlib import closing
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from toyspec.convert.databases import DATABASE_ERRORS, DATABASE_MAGIC, opened, tables_of
from toyspec.convert.sources import files_below, head_of
from toyspec.errors import SourceError, ToyspecError
from toyspec.findings import PathError
from toyspec.reading.log_detection import DialectChoice, usual_names
from toyspec.reading.stream_files import unpacked_head
from toyspec.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OWN_NAMES = ("*.db", "*.sqlite", "*.wandb", "*tfevents*", "*.parquet", "metrics.json", "meta.yaml")

_PARQUET = b"PAR1"
# Of MLflow and Trackio.
_TABLES = frozenset(["runs", "metrics", "experiments", "configs"])


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
    with open(path, "rb") as file:
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
