"""Runs of munin, version 2 of its schema, in both directions."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun
from toyspec.convert.losses import (
    Cause,
)
from toyspec.convert.munin_export import write_run
from toyspec.convert.munin_import import MuninImport
from toyspec.convert.sources import files_below, identity_of, object_in, size_of
from toyspec.errors import SourceError
from toyspec.format.profiles import EVENTS_FILE, MANIFEST_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.losses import Ledger

UNKNOWN = Cause("unknown", "dropped", "the event or its members are not those of munin")

_SCHEMA_VERSION = 2


def recognise(path: str) -> bool:
    """Return whether *path* is a run directory of munin, or a directory with some."""
    return next(_directories(path), None) is not None


def _directories(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        for directory, _ in files_below(path, lambda name: name == MANIFEST_FILE):
            if _manifest(directory) is not None:
                yield directory
    elif os.path.basename(path) in (EVENTS_FILE, MANIFEST_FILE) and _manifest(os.path.dirname(path)) is not None:
        yield os.path.dirname(path)


def _manifest(directory: str) -> dict[str, Any] | None:
    """Return the manifest in *directory*; None if it is not one of munin."""
    value = object_in(os.path.join(directory, MANIFEST_FILE))
    is_known = value is not None and value.get("schema_version") == _SCHEMA_VERSION and "experiment" in value
    return value if is_known else None


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs at *path* and below."""
    found = False
    for directory in _directories(path):
        manifest = _manifest(directory)
        if manifest is None:
            continue
        found = True
        files = [os.path.join(directory, name) for name in (MANIFEST_FILE, EVENTS_FILE)]
        files = [file for file in files if os.path.isfile(file)]
        name = manifest.get("name") or os.path.basename(os.path.abspath(directory))
        yield ForeignRun(
            name=str(name),
            source=directory,
            identity=identity_of(files),
            size=size_of(files),
            events=partial(_events, directory, manifest),
        )
    if not found:
        raise SourceError(path, f"no run of munin: {MANIFEST_FILE} with schema_version {_SCHEMA_VERSION} is expected")


def _events(directory: str, manifest: dict[str, Any], ledger: Ledger) -> Iterator[dict[str, Any]]:
    return MuninImport(manifest, ledger, UNKNOWN).events(os.path.join(directory, EVENTS_FILE))


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write a run directory for each of *runs*."""
    for run, ledger in runs:
        write_run(run, ledger, directory, _SCHEMA_VERSION)
