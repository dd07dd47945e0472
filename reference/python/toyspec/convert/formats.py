"""Describes a foreign format as data, and lists all of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.losses import Cause, Ledger
    from toyspec.reading.log_detection import DialectChoice

HOMES = {
    "tensorboard": "tensorboard",
    "wandb": "wandb_files",
    "mlflow": "mlflow_store",
    "trackio": "trackio_store",
    "dvclive": "dvclive_files",
    "aim": "aim_repos",
    "mllog": "mllog_lines",
    "kaun": "kaun_streams",
    "munin": "munin_runs",
    "metrics": "metrics_streams",
    "csv": "csv_files",
    "json": "json_arrays",
    "parquet": "parquet",
}
"""The module of each format, in the order in which a source is tried; dialects are tried after them."""

ANY_LOG = "log"
"""Stands for whichever dialect is recognized."""


class MappingRow(NamedTuple):
    """What one thing of the foreign format is in toy/v1."""

    theirs: str
    ours: str


class Format(NamedTuple):
    """What a format is and how it is mapped."""

    name: str
    title: str
    files: str
    """The files that make up a run."""
    item: str
    """What is counted as one item, in the plural."""
    mapping: tuple[MappingRow, ...]
    lossless: str
    """What comes back unchanged, in a few words."""
    version: str
    """The program and its version with which the round trip is tested."""
    in_place: str = "no"
    """Which of its files are checked, shown and followed where they are: yes, no, or what they are called."""
    import_causes: tuple[Cause, ...] = ()
    """Why items are changed or dropped by an import; empty where there is none."""
    export_causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the page of formats."""
    import_needs: str | None = None
    """The extra to install for importing."""
    export_needs: str | None = None
    export_unit: Literal["run", "table", "all"] = "run"
    """What an export writes on its own: a run, a part of tables that ``join`` puts together, or all runs at once."""


class ForeignRun(NamedTuple):
    """One run in a foreign format, not read yet."""

    name: str
    """The name that the run has there."""
    source: str
    """Path of the file or directory."""
    identity: str
    """Changes when the source changes."""
    size: int
    """Number of bytes to read."""
    events: Callable[[Ledger], Iterator[dict[str, Any] | bytes]]
    """Yields toy/v1 events in order, from run_start on; bytes are lines in canonical form, each with its LF."""
    dialect: str = ""
    """Name of the dialect that was recognized; empty for other formats."""
    parts: tuple[str, ...] = ()
    """The files and directories that the run is made of; empty if the source is all."""
    other_sources: tuple[str, ...] = ()
    """Paths that were the source of this run for an import that did not find all of its parts."""


class Importer(Protocol):
    """What the module of a format that can be imported defines."""

    FORMAT: Format

    def recognise(self, path: str) -> bool:
        """Return whether the file or directory at *path* is of this format; raise OSError if it cannot be read."""

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield the runs at *path*; raise SourceError if there is none, OSError if it cannot be read."""


class Exporter(Protocol):
    """What the module of a format that can be exported to defines."""

    FORMAT: Format

    def export(self, runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
        """Write *runs* into *directory*, which exists and is empty."""


def load(name: str) -> Any:
    """Return the module of the format *name*; raise ValueError if there is none."""
    if name not in HOMES:
        raise ValueError(f"unknown format {name!r}; known are {', '.join(HOMES)}")
    return import_module(f"toyspec.convert.{HOMES[name]}")


def importer(name: str, dialect: DialectChoice | None = None) -> Importer:
    """Return the module that imports the format *name*; *dialect* says how logs of other programs are read."""
    if name in HOMES and hasattr(load(name), "find_runs"):
        return cast("Importer", load(name))
    if name == ANY_LOG:
        return cast("Importer", dialect_logs().DialectImporter(dialect=dialect))
    if name in [*dialect_names(), *(each.name for each in (dialect.own if dialect else ()))]:
        return cast("Importer", dialect_logs().DialectImporter(name, dialect=dialect))
    raise ValueError(f"{name!r} cannot be imported; known are {', '.join(importable())}")


def exporter(name: str) -> Exporter:
    """Return the module that exports to the format *name*."""
    module = load(name)
    if not hasattr(module, "export"):
        raise ValueError(f"nothing is exported to {name}; known are {', '.join(exportable())}")
    return cast("Exporter", module)


def importable() -> list[str]:
    """Return the names of the formats that can be imported, dialects last."""
    own = [name for name in HOMES if hasattr(load(name), "find_runs")]
    return own + [name for name in dialect_names() if name not in own]


def dialect_names() -> list[str]:
    """Return the names of the dialects."""
    return list(dialect_logs().names())


def dialect_logs() -> Any:
    """Return the module that imports dialects; it needs this one."""
    return import_module("toyspec.convert.dialect_logs")


def exportable() -> list[str]:
    """Return the names of the formats that can be exported to."""
    return [name for name in HOMES if hasattr(load(name), "export")]
