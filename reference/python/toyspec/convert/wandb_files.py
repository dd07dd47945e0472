"""W&B run files, read without W&B, and written by its offline mode."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun, Format, MappingRow
from toyspec.convert.incoming_files import MISSING_FILE
from toyspec.convert.losses import (
    DAMAGED,
    NO_PLACE,
    NOT_FINITE,
    NULL,
    PART_DROPPED,
    REPEATED,
    ROUNDED,
    STEP_UNUSABLE,
    SUPERSEDED,
    TIME_JUMPS,
    TIME_UNUSABLE,
)
from toyspec.convert.sources import files_below, head_of, identity_of, is_file, size_of
from toyspec.convert.wandb_export import (
    CLOCK,
    NO_END,
    ONE_TIME,
    REFUSED,
    SAME_STEP,
    STEP_BACKWARDS,
    WITHOUT_STEP,
    WandbExport,
)
from toyspec.convert.wandb_import import WandbImport
from toyspec.convert.wandb_leveldb import FILE_HEADER, MAGIC
from toyspec.convert.wandb_sessions import WandbFiles, is_directory
from toyspec.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.losses import Ledger

FORMAT = Format(
    name="wandb",
    title="W&B offline runs",
    files="`wandb/offline-run-*/run-*.wandb`, or the file alone; those beside it of the same run are a part of it",
    item="items",
    mapping=(
        MappingRow("history", "`scalars`, one for each row; `_step` is `step`, `_timestamp` is `t`"),
        MappingRow("names of nested values", "joined by a dot, as W&B shows them"),
        MappingRow("config", "`config` of `run_start`, as it was at the end"),
        MappingRow("display name, group, notes, tags, host, commit, arguments", "members of `run_start`"),
        MappingRow("system metrics", "`system`, in `extra`"),
        MappingRow("`define_metric`", "`define`; a summary of min or max is the goal"),
        MappingRow("text in the history", "`texts` of `scalars`"),
        MappingRow("alert", "`alert`; its title is the rule"),
        MappingRow("image, audio, video, html and other files in the history", "`media`, the files unchanged"),
        MappingRow("table", "`media` of type `text/csv`"),
        MappingRow("histogram", "`histogram`"),
        MappingRow("artifact, used artifact", "`reference`, without its files"),
        MappingRow("exit", "`run_end`: completed with exit code 0, else errored"),
        MappingRow(
            "run file of a process that resumed the run",
            "`run_resume` from before its first step, then its records; the exit code before it is the reason",
        ),
        MappingRow("summary", "a value only where no row of the history has its name"),
        MappingRow("entity, project, job type, sweep, console output, the setting `_wandb`", "dropped"),
    ),
    lossless="import: finite numbers, config, definitions; export: numbers with increasing steps",
    version="wandb 0.31",
    in_place="its history as JSON",
    export_unit="all",
    export_needs="wandb",
    import_causes=(
        NOT_FINITE,
        ROUNDED,
        TIME_JUMPS,
        TIME_UNUSABLE,
        STEP_UNUSABLE,
        PART_DROPPED,
        REPEATED,
        MISSING_FILE,
        NO_PLACE,
        DAMAGED,
    ),
    export_causes=(
        *(NULL, CLOCK, ONE_TIME, WITHOUT_STEP, STEP_BACKWARDS, SAME_STEP, NO_END, PART_DROPPED, REFUSED),
        *(MISSING_FILE, SUPERSEDED, NO_PLACE, DAMAGED),
    ),
    notes=(
        "A flipped byte costs one record; the report names its place.",
        "A run that was resumed has a directory for each process. Those beside each other are one run.",
        "As for `wandb sync`, one run has one entity, project and run id; its processes come by their starts.",
        "Whichever directory is named, the whole run is imported; one that is added later comes with the next import.",
        "Resumed offline, W&B counts from step 0 unless `log` has the step: readers then show the later process alone.",
        "A run that was killed has no exit record, and lacks what W&B had not written yet.",
        "`toyspec export wandb` writes `offline-run-*` directories for `wandb sync`.",
    ),
)


def recognise(path: str) -> bool:
    """Return whether *path* is a run file, or a directory with some in it or below."""
    if not os.path.isdir(path):
        return is_file(path) and head_of(path, len(MAGIC)) == MAGIC
    return next(files_below(path, _is_named_so), None) is not None


def _is_named_so(name: str) -> bool:
    return name.endswith(".wandb")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run in the file *path*, or in each run file at *path* and below."""
    found = [file for _, files in files_below(path, _is_named_so) for file in files] if os.path.isdir(path) else [path]
    if not found:
        raise SourceError(path, "no run files (*.wandb) in the directory or below")
    files = WandbFiles()
    for run in dict.fromkeys(map(files.of, found)):
        yield _run(run)


def _events(paths: tuple[str, ...], ledger: Ledger) -> Iterator[dict[str, Any] | bytes]:
    for path in paths:
        head = head_of(path, len(FILE_HEADER))
        if head[: len(MAGIC)] != MAGIC:
            raise SourceError(path, "not a W&B run file: it does not begin with `:W&B`")
        if head != FILE_HEADER:
            raise SourceError(path, f"a W&B run file of version {head[4:].hex()}; only e1be00 (version 0) is known")
    yield from WandbImport(paths, ledger).events()


def _run(files: tuple[str, ...]) -> ForeignRun:
    name = os.path.basename(files[0]).removesuffix(".wandb").removeprefix("run-")
    return ForeignRun(
        name=name,
        source=files[0],
        identity=identity_of(files),
        size=2 * size_of(files),
        events=partial(_events, files),
        parts=tuple(map(_directory_of, files)),
        other_sources=files[1:],
    )


def _directory_of(path: str) -> str:
    """Return the directory that W&B made for the run file *path*; the file itself if it lies elsewhere."""
    directory = os.path.dirname(os.path.abspath(path))
    return directory if is_directory(os.path.basename(directory)) else path


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write an offline run for each of *runs*."""
    for run, ledger in runs:
        WandbExport(run, ledger).write(directory)
