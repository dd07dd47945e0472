"""Runs as CSV tables."""

from __future__ import annotations

import csv
import os
from collections import deque
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from toyspec.convert.destinations.destination import Destination, Lost, null_as_nan
from toyspec.convert.reports import NO_PLACE, Cause
from toyspec.core.directories import new_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item

TIME_OF_ROW = Cause("time-of-row", "changed", "the value has the time of the first value at its step")

# A later value at a step whose row was written begins a new row of that step.
_OPEN_ROWS = 4096
_OWN = ("step", "elapsed_s")
# Without a column `step`, it is not read as the log of one more run.
_TEXTS: list[object] = ["at_step", "elapsed_s", "name", "text"]
_TABLE_ROWS = 1000


class _Row(NamedTuple):
    """A row that may get more cells."""

    key: object
    t: float
    cells: list[object]


class CsvTables(Destination):
    """``metrics.csv`` in a folder for each run, and ``texts.csv`` where texts were logged."""

    needs_metrics = True

    def __init__(self, into: str | None = None) -> None:
        """Write below the directory *into*."""
        super().__init__(into)
        self._folder = ""
        self._files: dict[str, TextIO] = {}
        self._columns: dict[str, int] = {}
        self._rows: deque[_Row] = deque()
        self._latest: dict[object, _Row] = {}

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Write the header, with a column for each metric of the run."""
        del place
        self._folder = os.path.join(str(self.into), run.run_id)
        os.makedirs(self._folder)
        names = [name for name in run.metrics if name not in _OWN]
        self._columns = {name: at for at, name in enumerate(names, len(_OWN))}
        self._write("metrics.csv", [*_OWN, *names])
        return None

    def carry(self, item: Item) -> Iterable[Lost]:
        """Put a number into the row of its step; write a text."""
        if item.kind == "text":
            if "texts.csv" not in self._files:
                self._write("texts.csv", _TEXTS)
            self._write("texts.csv", [item.step, repr(item.t), item.name, item.value])
            return ()
        return self._measure(item) if item.kind == "measure" and item.name in self._columns else [Lost(NO_PLACE, item)]

    def _measure(self, item: Item) -> Iterator[Lost]:
        at = self._columns[item.name]
        key = item.place.partition(":")[0] if item.step is None else item.step
        row = self._latest.get(key)
        if row is None or row.cells[at] is not None:
            row = self._latest[key] = _Row(key, item.t, [item.step, repr(item.t), *[None] * len(self._columns)])
            self._rows.append(row)
            if len(self._rows) > _OPEN_ROWS:
                self._write_first()
        elif row.t != item.t:
            yield Lost(TIME_OF_ROW, item, item.t, row.t)
        row.cells[at] = "nan" if item.value is None else repr(item.value)
        yield from null_as_nan(item)

    def close(self, end: Ending | None) -> None:
        """Write the rest."""
        del end
        while self._rows:
            self._write_first()
        for file in self._files.values():
            file.close()
        self._files, self._latest = {}, {}

    def _write_first(self) -> None:
        row = self._rows.popleft()
        if self._latest[row.key] is row:
            del self._latest[row.key]
        self._write("metrics.csv", row.cells)

    def _write(self, name: str, cells: list[object]) -> None:
        if name not in self._files:
            file = new_file(os.path.join(self._folder, name))
            self._files[name] = TextIOWrapper(file, encoding="utf-8", newline="")
        csv.writer(self._files[name], lineterminator="\n").writerow(cells)
