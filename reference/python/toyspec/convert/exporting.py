"""Exports toy/v1 runs to other tools, row by row; the target appears whole or not at all."""

from __future__ import annotations

import os
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

from toyspec.convert.destinations.destination import (
    BATCH,
    Ending,
    RunHead,
    destination_of,
    exportable,
    settle,
)
from toyspec.convert.formats import paths_of
from toyspec.convert.reports import (
    CHANGED_SETTING,
    MAX_EXAMPLES,
    SUPERSEDED,
    ConversionReport,
    Ledger,
    RunConversion,
    drop_damage,
    lose_ranks,
)
from toyspec.convert.run_items import ItemRow, items_of, setting_items, start_items
from toyspec.core.directories import Directory, delete_tree, directory_of
from toyspec.core.errors import SourceError, StreamError
from toyspec.core.escaping import encodable
from toyspec.core.findings import PathError
from toyspec.core.reading.annotations import read_annotations
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import locate_stream, stream_size
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.core.runs.summary import start_after
from toyspec.core.watching import Total

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.destinations.destination import Destination
    from toyspec.convert.run_items import Item
    from toyspec.core.reading.records import Record
    from toyspec.core.watching import Watch

_ADVANCE_BYTES = 1 << 18
_PARTIAL = ".export-"
_NO_RUN = "no toy/v1 run in the directory or below; `toyspec import` makes runs of other logs"


class ExportedRun:
    """A toy/v1 run to export."""

    def __init__(self, path: str) -> None:
        """Open the run at *path*, a run directory or a stream; raise SourceError or StreamError if it is none."""
        self.path = path
        self.stream = locate_stream(path)
        self._attempts = Attempts()
        self._first: int | None = None
        self.start: dict[str, Any] = {}
        """The first run_start, with what annotations say in place of it; empty where there is none."""
        self.end: Ending | None = None
        """The last run_end; None where there is none, and where the run has gone on after it."""
        self.size = stream_size(self.stream)
        annotations = read_annotations(self.stream)
        last: dict[str, Any] = {}
        with read(self.stream, mode="salvage") as reading:
            for record in reading:
                self._attempts.learn(record)
                if record.kind == "run_start" and not self.start:
                    self.start = annotations.over(record.value) if annotations.count else record.value
                    self._first, last = record.offset, self.start
                last = start_after(last, record)
                self.end = Ending.after(record, self.end)
            profile = reading.report.profile
        if profile != "toy/v1":
            fact = "not a toy/v1 run" if profile is None else f"a {profile} run"
            raise SourceError(path, f"{fact}; only toy/v1 is exported. `toyspec import` makes a toy/v1 run of it")
        self.head = RunHead.of(self.stream, last)
        """What a destination is opened with: the run_start with the settings that the run had in the end."""

    def rows(self, ledger: Ledger) -> Iterator[ItemRow]:
        """Yield the row of every record in the order of the stream.

        Settings that the run changed later, ends after which it went on, the logs of other ranks and damaged places are
        dropped in *ledger*.
        """
        lose_ranks(self.stream, ledger)
        settings = self.head.settings
        with read(self.stream, mode="salvage") as reading:
            for record in self._watched(reading, ledger):
                kept = []
                for item in self._items(record):
                    if item.kind == "setting" and settings.get(item.name, item) != item.value:
                        item.drop(CHANGED_SETTING, ledger)
                    elif item.kind == "end" and (self.end is None or record.offset != self.end.offset):
                        item.drop(SUPERSEDED, ledger)
                    else:
                        kept.append(item)
                yield ItemRow(record, tuple(kept))
            drop_damage(reading.report, ledger)

    def _items(self, record: Record) -> Iterable[Item]:
        if record.offset == self._first:
            return start_items(record, self.start)
        if record.kind == "run_config":
            return setting_items(record, record.value)
        return items_of(record, self._attempts)

    def _watched(self, records: Iterable[Record], ledger: Ledger) -> Iterator[Record]:
        """Yield *records*, those of the run, and report to *ledger* how far they are."""
        done = 0
        for record in records:
            if record.offset - done >= _ADVANCE_BYTES:
                ledger.advance(record.offset - done)
                done = record.offset
            yield record
        ledger.advance(self.size - done)


def export_runs(
    format: str,  # noqa: A002 - the word that the command line uses
    runs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    max_examples: int = MAX_EXAMPLES,
    watch: Watch | None = None,
) -> ConversionReport:
    """Export *runs*, toy/v1 runs or directories with some below, into the directory *out*; return what became of each.

    *runs* is one path or several. What is in *out* already stays; a file that an export would replace is an error,
    and then nothing is written there. A run that cannot be read is in ``errors``. Raise ValueError for an
    unknown *format*, ImportError if it needs a package that is not installed, and OSError if *out* cannot be written.
    """
    if format not in exportable():
        raise ValueError(f"nothing is exported to {format}; known are {', '.join(exportable())}")
    target = os.fspath(out)
    place, name = os.path.split(os.path.abspath(target))
    partial_folder = os.path.join(place, f"{_PARTIAL}{name}")
    made = os.path.join(partial_folder, "made")
    delete_tree(partial_folder)
    os.makedirs(made)
    report = ConversionReport(direction="export")
    try:
        destination = destination_of(format).exporting(made, os.path.abspath(target))
        streams = list(_streams(paths_of(runs), report))
        total = Total(sum(stream.size for stream in streams), watch)
        names: set[str] = set()
        for stream in streams:
            ledger = Ledger(max_examples=max_examples, watch=total.advance)
            try:
                run = ExportedRun(stream.path)
            except (SourceError, StreamError) as error:
                report.errors.append(PathError(stream.path, error.fact))
                total.advance(stream.size)
                continue
            wanted = run.head.run_id
            run_id = next(each for each in chain([wanted], (f"{wanted}-{at}" for at in count(2))) if each not in names)
            names.add(run_id)
            _export(run, run_id, destination, ledger)
            entry = RunConversion(format=format, source=encodable(stream.path), target=encodable(target), run_id=run_id)
            entry.take(ledger)
            report.add(entry)
        destination.complete()
        _move_all(made, target)
    except OSError as error:
        if error.filename is None:
            # An error of writing names no file; what was written there is removed.
            error.filename = target
        raise
    finally:
        delete_tree(partial_folder)
    return report


def _streams(paths: list[str], report: ConversionReport) -> Iterator[Stream]:
    """Yield the streams at *paths*; what cannot be exported is in *report*."""
    for path in paths:
        for found in find_streams(path):
            if isinstance(found, Stream):
                yield found
            else:
                report.errors.append(found if isinstance(found, PathError) else PathError(path, _NO_RUN))


def _export(run: ExportedRun, run_id: str, destination: Destination, ledger: Ledger) -> None:
    destination.notes = ledger.notes
    destination.open(run.head._replace(run_id=run_id))
    end = None
    try:
        rows = run.rows(ledger)
        # The row of the start is not counted: a destination has carried it when it was opened.
        numbered = (row._replace(number=number) for number, row in enumerate(rows, -1))
        while batch := list(islice(numbered, BATCH)):
            settle(ledger, batch, destination.put(batch))
        end = run.end
    finally:
        destination.close(end)


def _move_all(folder: str, target: str) -> None:
    """Move what is in *folder* into the directory *target*; raise FileExistsError before that."""
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    moves = [os.path.relpath(file, folder) for file in files]
    for new in (os.path.join(target, path) for path in moves):
        if os.path.lexists(new):
            raise FileExistsError(17, "is there already; choose another directory for --out", new)
    if not os.path.lexists(target):
        with directory_of(folder) as (above, made), directory_of(target) as (place, name):
            above.move(made, name, to=place)
        return
    with Directory(folder) as made_there, Directory(target) as place:
        for *folders, name in (path.split(os.sep) for path in moves):
            with made_there.folder(*folders) as source, place.folder(*folders) as below:
                source.move(name, name, to=below)
