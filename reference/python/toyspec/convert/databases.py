"""Opens SQLite databases of other programs, for reading only."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from toyspec.convert.reports import DAMAGED, at_step
from toyspec.convert.sources import files_below, head_of, number_in
from toyspec.core.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from toyspec.convert.intake import Intake
    from toyspec.convert.reports import Ledger

DATABASE_MAGIC = b"SQLite format 3\0"
_JOURNAL = "-journal"
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database raises: Python decodes the names and messages of SQLite strictly."""


def opened(path: str) -> sqlite3.Connection:
    """Return a connection to the database *path* that cannot write; raise SourceError.

    It has what was committed. A database with changes that a killed program has left half done is refused.
    """
    connection: sqlite3.Connection | None = None
    try:
        # Without a mode, SQLite makes a file where there is none.
        mode = "mode=ro" if len(files_of(path)) > 1 else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"file:{quote(os.fsencode(os.path.abspath(path)))}?{mode}", uri=True)
        # Bytes that are not UTF-8 must not end an import.
        connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        connection.execute("PRAGMA schema_version")
    except DATABASE_ERRORS as error:
        if connection is not None:
            connection.close()
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_ROLLBACK:
            fact = "a program was killed while it wrote; open the database once with that program"
            raise SourceError(path, fact) from error
        raise SourceError(path, f"the database cannot be read: {error}") from error
    return connection


def databases_with(tables: AbstractSet[str], path: str) -> list[str]:
    """Return the database at *path*, or those in the directory and below, that have all *tables*."""
    if os.path.isdir(path):
        found = files_below(path, lambda name: name.endswith(".db"))
        return [file for _, files in found for file in files if _has_tables(file, tables)]
    return [path] if _has_tables(path, tables) else []


def _has_tables(path: str, tables: AbstractSet[str]) -> bool:
    if head_of(path, len(DATABASE_MAGIC)) != DATABASE_MAGIC:
        return False
    try:
        return tables_of(path) >= tables
    except SourceError:
        return False


def files_of(path: str) -> list[str]:
    """Return the database *path* and the logs of changes beside it, which a program that writes it has."""
    # Without one, nothing writes the database; SQLite then makes no file beside it either.
    logs = [f"{path}{ending}" for ending in ("-wal", _JOURNAL)]
    return [path, *(log for log in logs if os.path.exists(log) and os.path.getsize(log))]


def tables_of(path: str) -> set[str]:
    """Return the names of the tables of the database *path*; raise SourceError."""
    with closing(opened(path)) as database:
        try:
            return {str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except DATABASE_ERRORS as error:
            raise SourceError(path, f"the database cannot be read: {error}") from error


def runs_of(paths: Iterable[str], query: str) -> tuple[list[tuple[str, str, Any]], list[SourceError]]:
    """Return path, id and name of each run in the databases *paths*, and an error for each that cannot be read."""
    found: list[tuple[str, str, Any]] = []
    refused: list[SourceError] = []
    for path in paths:
        try:
            with closing(opened(path)) as database:
                found += [(path, str(run_id), name) for run_id, name in database.execute(query).fetchall()]
        except DATABASE_ERRORS as error:
            refused.append(SourceError(path, f"the database cannot be read: {error}"))
        except SourceError as error:
            refused.append(error)
    return found, refused


def queried(database: sqlite3.Connection, query: str, run_id: str, ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of *query* for a run; where the database is damaged, end with an entry in the ledger."""
    try:
        yield from database.execute(query, (run_id,))
    except DATABASE_ERRORS as error:
        ledger.lose(DAMAGED, "database", str(error))


class Points:
    """Values that a source has metric by metric, sorted by time: on the disk, so that memory is bounded."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("")
        self._database.execute("CREATE TABLE points (wall, step, epoch, metric, value)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, points: Iterable[tuple[float | None, int, float | None, str, float]]) -> None:
        """Add time, step, epoch, metric and value of each of *points*."""
        # SQLite takes NaN for NULL.
        rows = ((wall, step, epoch, metric, repr(value)) for wall, step, epoch, metric, value in points)
        self._database.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?)", rows)

    def walls(self) -> Iterator[float]:
        """Yield the different times."""
        return (wall for (wall,) in self._database.execute("SELECT DISTINCT wall FROM points"))

    def metrics(self) -> set[str]:
        """Return the names of the metrics."""
        return {str(metric) for (metric,) in self._database.execute("SELECT DISTINCT metric FROM points")}

    def lines(self, intake: Intake) -> Iterator[bytes]:
        """Yield the lines of all points."""
        query = "SELECT * FROM points ORDER BY wall, step, metric"
        for wall, step, epoch, metric, value in self._database.execute(query):
            members = {} if epoch is None or epoch < 0 else {"epoch": epoch}
            yield from intake.values(wall, step, {metric: number_in(value)}, at_step(step, metric), **members)
