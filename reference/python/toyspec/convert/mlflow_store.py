"""MLflow: the SQLite database and the file store, read without MLflow; written through its client."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toyspec.convert.databases import DATABASE_ERRORS, databases_with, files_of, opened
from toyspec.convert.formats import ForeignRun
from toyspec.convert.mlflow_export import write_runs
from toyspec.convert.mlflow_files import file_runs
from toyspec.convert.mlflow_import import MlflowImport
from toyspec.convert.mlflow_others import others_of
from toyspec.convert.sources import identity_of
from toyspec.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.losses import Ledger

_TABLES = frozenset(["runs", "metrics", "params", "tags", "experiments"])


def recognise(path: str) -> bool:
    """Return whether *path* is a database or a file store of MLflow, or a directory with one of them."""
    return bool(databases_with(_TABLES, path)) or next(file_runs(path), None) is not None


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs of the databases and the file stores at *path*, a file or a directory, and below."""
    found = False
    refused: list[SourceError] = []
    for database in databases_with(_TABLES, path):
        # One that cannot be read does not stop the others.
        try:
            for run in _of_database(database):
                found = True
                yield run
        except SourceError as error:
            refused.append(error)
    for run in file_runs(path):
        found = True
        yield run
    if refused:
        raise refused[0]
    if not found:
        raise SourceError(path, "no run of MLflow: neither a database with runs nor a directory `mlruns`")


def _of_database(path: str) -> Iterator[ForeignRun]:
    with closing(opened(path)) as database:
        query = "SELECT run_uuid, name FROM runs WHERE lifecycle_stage != 'deleted' ORDER BY start_time, run_uuid"
        try:
            rows = database.execute(query).fetchall()
        except DATABASE_ERRORS as error:
            raise SourceError(path, f"the database cannot be read: {error}") from error
    size = os.path.getsize(path)
    for run_id, name in rows:
        yield ForeignRun(
            name=str(name or run_id),
            source=f"{path}#{run_id}",
            identity=identity_of(files_of(path), str(run_id)),
            size=size // len(rows),
            events=partial(_events, path, str(run_id)),
            parts=(path,),
        )


def _events(path: str, run_id: str, ledger: Ledger) -> Iterator[dict[str, Any] | bytes]:
    # Opened with the first event: events that nothing asks for leave no database open.
    with closing(opened(path)) as database:
        yield from MlflowImport(database, run_id, ledger, lambda t: others_of(path, run_id, t, ledger)).events()


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write all of *runs* into one database."""
    write_runs(runs, directory)


def relocate(directory: str, target: str) -> None:
    """Let the database in *directory* name its artifacts where they will be, below *target*."""
    path = os.path.join(directory, "mlflow.db")
    if not os.path.isfile(path):
        return
    with closing(sqlite3.connect(path)) as database, database:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            for old, new in ((directory, target), (Path(directory).as_uri(), Path(target).as_uri())):
                query = f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?"  # noqa: S608
                database.execute(query, (new, len(old) + 1, len(old), old))
