"""Every foreign format that is imported, and which of them are at a path: their runs, and what cannot be read."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import FileOwners, Format, converters
from toyspec.convert.sources import files_below, head_of
from toyspec.core.errors import ToyspecError
from toyspec.core.findings import PathError
from toyspec.core.reading import readers
from toyspec.core.reading.log_detection import DialectChoice, usual_names
from toyspec.core.reading.run_files import rank_of
from toyspec.core.reading.stream_files import STREAM_NAMES, unpacked_head
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.formats import ForeignRun, Importer

_BELOW = "in the directory or below"
FORMATS = {
    known.name: known
    for known in (
        Format(
            "tensorboard",
            "TensorBoard event files",
            "tensorboard",
            f"no event files (*tfevents*) {_BELOW}",
            item="values",
        ),
        Format("wandb", "W&B offline runs", "wandb_files", f"no run files (*.wandb) {_BELOW}"),
        Format(
            "mlflow",
            "MLflow",
            "mlflow_store",
            "no run of MLflow: neither a database with runs nor a directory `mlruns`",
        ),
        Format("trackio", "Trackio", "trackio_store", "no database of Trackio and no fragments of its JSON Lines mode"),
        Format("dvclive", "DVCLive", "dvclive_files", "no directory with metrics.json and plots/metrics"),
        Format("aim", "Aim", "aim_repos", "no repository of Aim: a directory .aim with runs is expected", needs="aim"),
        Format("kaun", "kaun/v1", "own_formats:KAUN", "no run of kaun/v1"),
        Format("metrics", "metrics/v1", "own_formats:METRICS", "no run of metrics/v1"),
    )
}
"""The formats in the order in which a source is tried; dialects come after them."""

ANY_LOG = "log"
"""Stands for whichever dialect is recognized."""

_OWN_NAMES = ("*.db", "*.sqlite", "*.wandb", "*tfevents*", "metrics.json", "meta.yaml")
_DATABASE = b"SQLite format 3\0"


def importer(name: str, dialect: DialectChoice | None = None, others: FileOwners | None = None) -> Importer:
    """Return what imports the format *name*; raise ValueError if nothing does.

    *dialect* says how logs of other programs are read; those that are parts of the runs of *others* are left out.
    """
    if name in FORMATS:
        module, _, attribute = FORMATS[name].module.partition(":")
        found: Any = import_module(f"toyspec.convert.{module}")
        return getattr(found, attribute) if attribute else found  # type: ignore[no-any-return]
    if name in [ANY_LOG, *readers.dialects().names(), *(each.name for each in (dialect.own if dialect else ()))]:
        from toyspec.convert.dialect_logs import DialectImporter

        return DialectImporter(None if name == ANY_LOG else name, others, dialect)
    other = converters().get(name)
    if other is not None and other.importer is not None:
        return other.importer
    raise ValueError(f"{name!r} cannot be imported; known are {', '.join(importable())}")


def importable() -> list[str]:
    """Return the names of the formats that can be imported; dialects come after ours and those of other packages."""
    return list(dict.fromkeys([*tried(), *readers.dialects().names()]))


def tried() -> list[str]:
    """Return the names of the formats that are tried before dialects: ours, then those that other packages import."""
    of_packages = [name for name, each in converters().items() if each.importer is not None]
    return list(dict.fromkeys([*FORMATS, *of_packages]))


def described(name: str) -> tuple[str, str]:
    """Return the title of the format *name*, and what is counted as one item of it, in the plural."""
    if name in FORMATS:
        return FORMATS[name].title, FORMATS[name].item
    other = converters().get(name)
    return (name, "members") if other is None else (other.title, other.item)


def expected(name: str) -> str:
    """Return what an import by *name* finds, where there is nothing of it."""
    if name in FORMATS:
        return FORMATS[name].expected
    return "there is not a log of a known dialect" if name == ANY_LOG else f"there is not a log of the dialect {name}"


class ImportableRuns:
    """The runs at a path and below, format by format: one that cannot be read does not stop the others."""

    def __init__(self, source: str, name: str | None = None, choice: DialectChoice | None = None) -> None:
        """Look at *source*, a file or a directory, for runs in the format *name*; in any but a dialect without it."""
        self._source = source
        self._names = tried() if name is None else [name]
        self._choice = choice
        self.owners = FileOwners()
        """The files of the runs so far."""
        self.refused: list[tuple[str, ToyspecError | OSError | ImportError]] = []
        """The formats that could not be searched to their end, and why."""
        self.is_found = False
        """Whether there was a run so far."""

    def runs(self) -> Iterator[tuple[str, ForeignRun]]:
        """Yield each run with its format; with a choice of dialects, the logs that are of no other format too."""
        for name in [*self._names, *([ANY_LOG] if self._choice and len(self._names) > 1 else [])]:
            # A file has one format.
            if (self.is_found or self.refused) and not os.path.isdir(self._source):
                return
            try:
                for run in importer(name, self._choice, self.owners).find_runs(self._source):
                    self.is_found = True
                    self.owners.add(name, run)
                    yield name, run
            except (ToyspecError, OSError, ImportError) as error:
                self.refused.append((name, error))


def format_of(path: str) -> str | None:
    """Return the format of the file *path*, whatever lies beside it; None if it is not known."""
    found = ImportableRuns(path)
    name = next((name for name, _ in found.runs()), None)
    return name or next((name for name, error in found.refused if not isinstance(error, OSError)), None)


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
    for _, files in files_below(root, lambda name: _is_one_of(names, name), refused):
        for file in files:
            fact = None if is_part(file) else damage_of(file)
            if fact is not None:
                yield PathError(file, fact)
    yield from (PathError(path, cause_of(error)) for path, error in refused)


def has_usual_name(path: str) -> bool:
    """Return whether the stream or the log *path* has a name by which it is found in a directory."""
    name = os.path.basename(path)
    return rank_of(name) is not None or _is_one_of((*STREAM_NAMES, *usual_names(DialectChoice())), name)


def _is_one_of(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name.removesuffix(".gz"), pattern) for pattern in patterns)


def damage_of(path: str) -> str | None:
    """Return why the file *path* cannot be read; None if it can, as far as its beginning shows."""
    try:
        head = head_of(path, len(_DATABASE))
        if head == _DATABASE:
            # Imported when used: start-up time counts.
            from toyspec.convert.databases import tables_of

            tables_of(path)
        if path.endswith(".gz"):
            unpacked_head(path, 1)
    except OSError as error:
        return cause_of(error)
    except ToyspecError as error:
        return getattr(error, "fact", str(error))
    return None
