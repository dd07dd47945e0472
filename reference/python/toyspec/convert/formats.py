"""Describes a foreign format as data, and what its module defines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.intake import Intake
    from toyspec.convert.losses import Ledger


def paths_of(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return *paths* as texts: one path alone is a list of one, and no list of its letters."""
    return [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]


class Format(NamedTuple):
    """What a format is called, and what can be done with it."""

    name: str
    title: str
    module: str
    imports: bool = True
    exports: bool = True
    import_needs: str | None = None
    """The extra to install for importing."""
    export_needs: str | None = None
    export_unit: Literal["run", "table", "all"] = "run"
    """What an export writes on its own: a run, a part of tables that ``join`` puts together, or all runs at once."""
    item: str = "items"
    """What is counted as one item, in the plural."""


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
    records: Callable[[Intake], Iterator[bytes]]
    """Hands what the source has to an intake, from its start on, and yields the lines that it gives."""
    dialect: str = ""
    """Name of the dialect that was recognized; empty for other formats."""
    parts: tuple[str, ...] = ()
    """The files and directories that the run is made of; empty if the source is all."""
    other_sources: tuple[str, ...] = ()
    """Paths that were the source of this run for an import that did not find all of its parts."""


class Importer(Protocol):
    """What the module of a format that can be imported defines."""

    def recognise(self, path: str) -> bool:
        """Return whether the file or directory at *path* is of this format; raise OSError if it cannot be read."""

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield the runs at *path*; raise SourceError if there is none, OSError if it cannot be read."""


@runtime_checkable
class Relocating(Protocol):
    """What the module of a format defines whose files name the directory that they are in."""

    def relocate(self, directory: str, target: str) -> None:
        """Let the files in *directory* name *target*, to which they are moved next."""
        ...


class Exporter(Protocol):
    """What the module of a format that can be exported to defines."""

    def export(self, runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
        """Write *runs* into *directory*, which exists and is empty."""
