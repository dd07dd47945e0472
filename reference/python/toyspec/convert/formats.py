"""What an importer is, and what it finds: runs in a foreign format; and what other packages bring."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from toyspec.convert.sources import identity_of
from toyspec.core.entry_points import all_brought

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toyspec.convert.destinations.destination import Destination
    from toyspec.convert.intake import Intake

GROUP = "toyspec.converters"
"""The group of entry points whose names are formats, and whose values are such as ``Converter``."""


def paths_of(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return *paths* as texts: one path alone is a list of one, and no list of its letters."""
    return [os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]


class Format(NamedTuple):
    """What a format that is imported is called, and where it is read."""

    name: str
    title: str
    module: str
    expected: str
    """What an import of it finds, for the error where there is nothing."""
    needs: str | None = None
    """The extra to install."""
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

    @classmethod
    def of(  # noqa: PLR0913 - each is a fact of its own
        cls,
        name: str,
        source: str,
        files: Sequence[str],
        records: Callable[[Intake], Iterator[bytes]],
        mark: str = "",
        *,
        share: int = 1,
        parts: Sequence[str] = (),
        dialect: str = "",
    ) -> ForeignRun:
        """Return the run in *files*, which may have *share* runs, each with a *mark* of its own; raise OSError.

        *parts* is what it is made of, if these are not its files.
        """
        size = sum(map(os.path.getsize, files)) // share
        return cls(name, source, identity_of(files, mark), size, records, dialect, tuple(parts or files))


class Importer(Protocol):
    """What the module of a format that can be imported defines."""

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield the runs at *path*, a file or a directory, and below: none if nothing there is of this format.

        Raise SourceError or OSError if it cannot be read.
        """


class Converter(NamedTuple):
    """What another package brings for a format: how it is imported, how runs are exported to it, or both."""

    title: str
    importer: Importer | None = None
    destination: type[Destination] | None = None
    """What ``toyspec export`` writes with; an export makes one of it for each run."""
    item: str = "items"
    """What is counted as one item of an import, in the plural."""


def converters() -> Mapping[str, Converter]:
    """Return what other packages bring, by format."""
    return all_brought(GROUP)


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
