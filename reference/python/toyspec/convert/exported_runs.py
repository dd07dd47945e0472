"""Reads a toy/v1 run for an export, row by row."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toyspec.convert.destinations.destination import Ending, RunHead
from toyspec.convert.reports import OTHER_RANK, SUPERSEDED, Ledger, drop_damage
from toyspec.convert.run_items import ItemRow, items_of, start_items
from toyspec.core.errors import SourceError
from toyspec.core.reading.annotations import read_annotations
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.stream_files import locate_stream, stream_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.run_items import Item
    from toyspec.core.reading.records import Record

_ADVANCE_BYTES = 1 << 18


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
        with read(self.stream, mode="salvage") as reading:
            for record in reading:
                self._attempts.learn(record)
                if record.kind == "run_start" and not self.start:
                    self.start = annotations.over(record.value) if annotations.count else record.value
                    self._first = record.offset
                self.end = Ending.after(record, self.end)
            profile = reading.report.profile
        if profile != "toy/v1":
            fact = "not a toy/v1 run" if profile is None else f"a {profile} run"
            raise SourceError(path, f"{fact}; only toy/v1 is exported. `toyspec import` makes a toy/v1 run of it")
        self.head = RunHead.of(self.stream, self.start)

    def metrics(self) -> tuple[str, ...]:
        """Return the names of all numbers that no resumption supersedes, sorted."""
        rows = self.rows(Ledger())
        return tuple(sorted({item.name for row in rows for item in row.items if item.kind == "measure"}))

    def rows(self, ledger: Ledger, *, attempts: bool = False) -> Iterator[ItemRow]:
        """Yield the row of every record in the order of the stream, its items counted in *ledger*.

        Without *attempts*, items that a resumption supersedes are dropped here, and the resumptions are carried by
        that. The logs of other ranks and damaged places are dropped.
        """
        for rank, path in ranks_beside(self.stream).items():
            ledger.lose(OTHER_RANK, f"rank {rank}", os.path.basename(path))
        with read(self.stream, mode="salvage") as reading:
            for record, is_latest in self._with_verdict(self._watched(reading, ledger)):
                items = tuple(self._items(record))
                ledger.items += len(items)
                if is_latest or attempts:
                    kept = tuple(item for item in items if attempts or item.kind != "resume")
                    ledger.carried += len(items) - len(kept)
                    yield ItemRow(record, kept)
                else:
                    for item in items:
                        ledger.drop(SUPERSEDED, item.place, item.shown)
            drop_damage(reading.report, ledger)

    def _items(self, record: Record) -> Iterable[Item]:
        if record.offset == self._first:
            return start_items(record, self.start)
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

    def _with_verdict(self, records: Iterator[Record]) -> Iterator[tuple[Record, bool]]:
        pulled: list[Record] = []

        def noted() -> Iterator[Record]:
            for record in records:
                pulled.append(record)
                yield record

        for kept in self._attempts.latest(noted()):
            yield from ((record, record is kept) for record in pulled)
            pulled.clear()
        yield from ((record, False) for record in pulled)
