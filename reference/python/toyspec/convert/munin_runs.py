"""Runs of munin, version 2 of its schema, in both directions."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun, Format, MappingRow
from toyspec.convert.incoming_files import FILE_CAUSES, MISSING_FILE
from toyspec.convert.losses import (
    DAMAGED,
    NO_PLACE,
    NOT_FINITE,
    PART_DROPPED,
    ROUNDED,
    STEP_UNUSABLE,
    SUPERSEDED,
    TIME_JUMPS,
    TIME_UNUSABLE,
    WITHOUT_STEP,
    Cause,
)
from toyspec.convert.munin_export import NULL_UNREAD, SETTING_AS_TEXT, STATUSES, write_run
from toyspec.convert.munin_import import PARAMETERS, MuninImport
from toyspec.convert.sources import files_below, identity_of, object_in, size_of
from toyspec.errors import SourceError
from toyspec.format.profiles import EVENTS_FILE, MANIFEST_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.losses import Ledger

UNKNOWN = Cause("unknown", "dropped", "the event or its members are not those of munin")

FORMAT = Format(
    name="munin",
    title="munin",
    files="a run directory with `run.json` and `events.jsonl`, or a root: `experiments/EXPERIMENT/runs/ID`",
    item="items",
    mapping=(
        MappingRow("`metric` events of one step and time", "a `scalars` record; `timestamp` is `t`"),
        MappingRow("`define_metric`", "`define`; `step_metric` is `step_name`"),
        MappingRow("`notes`, `tags`, `summary`", "`note`, with that topic"),
        MappingRow("`media`: image, audio, file", "`media`, the file unchanged"),
        MappingRow("`media`: table", "`media` of type `text/csv`"),
        MappingRow("`artifact_output`", "`artifact`, with its files; a `reference` without them"),
        MappingRow("`artifact_input`", "`reference` to `munin:NAME:VERSION`, with the role `input`"),
        MappingRow("`parent_id`", "`parent` of `run_start`"),
        MappingRow("`resumed`, at the last step", "`run_resume`"),
        MappingRow(
            "`finished`, with the status " + ", ".join(f"`{status}`" for status in STATUSES.values()),
            "`run_end`, with the reason " + ", ".join(f"`{reason}`" for reason in STATUSES),
        ),
        MappingRow("`params`, `name`, `tags`, `group`", "`config`, `name`, `tags`, `group` of `run_start`"),
        MappingRow("`experiment`", "`group`, for a run without a group"),
        MappingRow("`provenance`: command, notes, hostname, revision", "`argv`, `notes`, `host`, `git` of `run_start`"),
        MappingRow("environment, process, directory, all else in the manifest", "`note` with the topic `provenance`"),
    ),
    lossless="numbers with steps, settings that are not nested, definitions of metrics, media, artifacts",
    version="toyspec itself; made after the sources of munin, July 2026",
    in_place="yes",
    import_causes=(
        NOT_FINITE, ROUNDED, TIME_JUMPS, TIME_UNUSABLE, STEP_UNUSABLE, PARAMETERS, PART_DROPPED, SUPERSEDED, UNKNOWN,
        *FILE_CAUSES, DAMAGED,
    ),
    export_causes=(
        NOT_FINITE, NULL_UNREAD, WITHOUT_STEP, SETTING_AS_TEXT, PART_DROPPED, MISSING_FILE, SUPERSEDED, NO_PLACE,
        DAMAGED,
    ),
    notes=("munin lists runs by an index in its root; without an index, as in a new directory, it reads the folders.",),
)  # fmt: skip

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
