"""Accounts for what a run in MLflow's database has besides metrics, params and tags."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from toyspec.convert.databases import DATABASE_ERRORS, opened, tables_of
from toyspec.convert.losses import DAMAGED, NO_PLACE
from toyspec.convert.sources import drop_files

if TYPE_CHECKING:
    from toyspec.convert.losses import Ledger

_DATASETS = (
    "SELECT datasets.name FROM inputs LEFT JOIN datasets ON inputs.source_id = datasets.dataset_uuid "
    "WHERE inputs.destination_type = 'RUN' AND inputs.destination_id = ?"
)
_ARTIFACTS = "SELECT artifact_uri FROM runs WHERE run_uuid = ?"


def drop_others(path: str, run_id: str, ledger: Ledger) -> None:
    """Drop the datasets of a run in the database *path*, and its artifacts if they are in a directory here."""
    try:
        with closing(opened(path)) as database:
            # Databases of older versions have no datasets.
            if tables_of(path) >= {"inputs", "datasets"}:
                for (name,) in database.execute(_DATASETS, (run_id,)):
                    ledger.items += 1
                    ledger.drop(NO_PLACE, "dataset", name)
            for (address,) in database.execute(_ARTIFACTS, (run_id,)):
                directory = local_directory(address)
                if directory is not None:
                    drop_files(os.path.dirname(directory), directory, ledger)
    except DATABASE_ERRORS as error:
        ledger.items += 1
        ledger.drop(DAMAGED, "database", str(error))


def local_directory(address: object) -> str | None:
    """Return the directory at *address*; None for another kind of place."""
    if not isinstance(address, str):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    directory = unquote(parts.path) if parts.scheme == "file" else address
    return directory if parts.scheme in ("", "file") and os.path.isabs(directory) else None
