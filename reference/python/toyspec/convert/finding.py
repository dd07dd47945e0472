"""Every foreign format that is imported, and which of them are at a path: their runs, and what cannot be read."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from toyspec.convert.formats import FileOwners, Format, converters
from toyspec.convert.sources import files_below, head_of
from toyspec.core.errors import SourceError, ToyspecError
from toyspec.core.files import open_file
from toyspec.core.findings import PathError
from toyspec.core.reading.log_detection import DialectChoice, usual_names
from toyspec.core.reading.stream_files import unpacked_head
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.formats import Importer

FORMATS = {
    known.name: known
    for known in (
        Format("tensorboard", "TensorBoard event files", "tensorboard", item="values"),
        Format("wandb", "W&B offline runs", "wandb_files"),
        Format("mlflow", "MLflow", "mlflow_store"),
        Format("trackio", "Trackio", "trackio_store"),
        Format("dvclive", "DVCLive", "dvclive_files"),
        Format("aim", "Aim", "aim_repos", needs="aim"),
        Format("kaun", "kaun/v1", "kaun_streams"),
        Format("munin", "munin", "munin_runs"),
        Format("metrics", "metrics/v1", "metrics_streams"),
        Format("json", "JSON array", "json_arrays", item="records"),
        Format("parquet", "Parquet", "parquet", needs="parquet"),
        Format("neptune", "Neptune exports", "neptune_files", item="rows", needs="parquet"),
        Format("wandb-history", "W&B history as Parquet", "wandb_history", needs="parquet"),
    )
}
"""The formats in the order in which a source is tried; dialects come after them."""

ANY_LOG = "log"
"""Stands for whichever dialect is recognized."""


def load(name: str) -> Any:
    """Return the module of the format *name*; raise ValueError if there is none."""
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return import_module(f"toyspec.convert.{FORMATS[name].module}")


def importer(name: str, dialect: DialectChoice | None = None) -> Importer:
    """Return what imports the format *name*; *dialect* says how logs of other programs are read."""
    if name in FORMATS:
        return cast("Importer", load(name))
    if name in [ANY_LOG, *dialect_names(), *(each.name for each in (dialect.own if dialect else ()))]:
        from toyspec.convert.dialect_logs import DialectImporter

        return DialectImporter(None if name == ANY_LOG else name, dialect=dialect)
    other = converters().get(name)
    if other is not None and other.importer is not None:
        return other.importer
    raise ValueError(f"{name!r} cannot be imported; known are {', '.join(importable())}")


def importable() -> list[str]:
    """Return the names of the formats that can be imported; dialects come after ours and those of other packages."""
    return list(dict.fromkeys([*FORMATS, *of_packages(), *dialect_names()]))


def of_packages() -> list[str]:
    """Return the names of the formats that other packages import."""
    return [name for name, each in converters().items() if each.importer is not None and name not in FORMATS]


def described(name: str) -> tuple[str, str]:
    """Return the title of the format *name*, and what is counted as one item of it, in the plural."""
    if name in FORMATS:
        return FORMATS[name].title, FORMATS[name].item
    other = converters().get(name)
    return (name, "members") if other is None else (other.title, other.item)


def dialect_names() -> list[str]:
    """Return the names of the dialects."""
    # Imported when used: start-up time counts.
    from toyspec.convert.dialect_logs import names

    return list(names())


_OWN_NAMES = ("*.db", "*.sqlite", "*.wandb", "*tfevents*", "*.parquet", "metrics.json", "meta.yaml")
_PARQUET, _DATABASE = b"PAR1", b"SQLite format 3\0"
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
        head = head_of(path, len(_DATABASE))
        if head == _DATABASE:
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
    # Imported when used: start-up time counts.
    from toyspec.convert.databases import DATABASE_ERRORS, opened, tables_of

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
