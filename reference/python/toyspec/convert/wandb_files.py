"""W&B run files, read without W&B, and written by its offline mode."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun
from toyspec.convert.sources import files_below, head_of, identity_of, is_file, size_of
from toyspec.convert.wandb_export import (
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
