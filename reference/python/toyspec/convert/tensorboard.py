"""TensorBoard event files, in both directions."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert import tensorboard_messages, tensorboard_records
from toyspec.convert.formats import ForeignRun
from toyspec.convert.losses import (
    DAMAGED,
)
from toyspec.convert.sources import files_below, head_of, identity_of, is_file, name_below, size_of
from toyspec.convert.tensorboard_export import EventExport
from toyspec.convert.tensorboard_import import EventImport, EventWriters, writers_of
from toyspec.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.losses import Ledger

_MARK = "tfevents"


def recognise(path: str) -> bool:
    """Return whether *path* is an event file, or a directory with some in it or below."""
    if not os.path.isdir(path):
        return is_file(path) and _is_event_file(path)
    return next(files_below(path, _is_named_so), None) is not None


def _is_named_so(name: str) -> bool:
    return _MARK in name


def _is_event_file(path: str) -> bool:
    data = head_of(path, tensorboard_records.HEADER_BYTES + 64)
    return _MARK in os.path.basename(path) or tensorboard_messages.FILE_VERSION.encode() in data[:48]


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run of the event file *path*, or one for each directory with event files at *path* and below."""
    if not os.path.isdir(path):
        yield _run(os.path.basename(os.path.dirname(os.path.abspath(path))), path, EventWriters([[path]]))
        return
    found = False
    for directory, files in files_below(path, _is_named_so):
        found = True
        name = name_below(path, directory)
        yield from (_run(name, directory, writers) for writers in writers_of(files, name))
    if not found:
        raise SourceError(path, "no event files (*tfevents*) in the directory or below")


def _run(name: str, source: str, writers: EventWriters) -> ForeignRun:
    files = [file for group in writers.groups for file in group]
    name = f"{name}-{writers.process}" if writers.process else name
    return ForeignRun(
        name=name,
        source=files[0] if writers.process else source,
        identity=identity_of(files),
        size=size_of(files),
        events=partial(_events, writers, name),
        parts=tuple(files),
    )


def _events(writers: EventWriters, name: str, ledger: Ledger) -> Iterator[dict[str, Any] | bytes]:
    if writers.folder:
        ledger.note("several processes wrote in its directory at the same time; each is a run of its own, in one group")
    yield from EventImport(writers, name, ledger).events()
    files = [file for group in writers.groups for file in group]
    damaged = sum(loss.count for loss in ledger.losses if loss.cause == DAMAGED.name)
    heads = (head_of(file, tensorboard_records.HEADER_BYTES) for file in files)
    # A file that was cut off in its first record is a run without values.
    if 0 < ledger.items == damaged and not any(map(tensorboard_records.may_begin, heads)):
        raise SourceError(files[0], "not an event file: no record in it can be read")


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write one event file for each of *runs*, in a directory of its name."""
    for run, ledger in runs:
        folder = os.path.join(directory, run.run_id)
        os.makedirs(folder)
        with open(os.path.join(folder, f"events.out.tfevents.{int(run.wall(0.0)):010d}.toyspec"), "wb") as file:
            EventExport(run, ledger, file).write()
