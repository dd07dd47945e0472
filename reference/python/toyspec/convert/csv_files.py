"""CSV tables of the measures of runs: one file for each run, one row for each record."""

from __future__ import annotations

import csv
import os
from typing import TYPE_CHECKING

from toyspec.convert.formats import Format, Row
from toyspec.convert.losses import DAMAGED, NO_PLACE, NULL, SUPERSEDED, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item

FORMAT = Format(
    name="csv",
    title="CSV",
    files="`RUN/metrics.csv`, in the shape of Lightning's CSVLogger: one row for each record, other cells blank",
    item="items",
    mapping=(
        Row("column `step`", "`step`"),
        Row("column `elapsed_s`", "`t`, in seconds since the start of the run"),
        Row("column of a name", "a number of `step`, `scalars`, `eval` or `system`, by its full name"),
        Row("`nan`", "null"),
    ),
    lossless="numbers, to the last digit",
    version="Python's csv, pandas 3",
    export_causes=(NULL, SUPERSEDED, NO_PLACE, DAMAGED),
    notes=(
        "Any CSV with a step column, those of Lightning and Keras too, is read as a dialect; see below.",
        "Settings, notes and other records are not in the table; `toyspec export json` keeps them.",
    ),
)


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write one table for each of *runs*."""
    for run, ledger in runs:
        folder = os.path.join(directory, run.run_id)
        os.makedirs(folder)
        with open(os.path.join(folder, "metrics.csv"), "w", encoding="utf-8", newline="") as file:
            names = _names(run)
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["step", "elapsed_s", *names])
            columns = {name: index for index, name in enumerate(names, 2)}
            for row in _rows(run, ledger, columns):
                table.writerow(row)


def _names(run: ExportedRun) -> list[str]:
    """Return the names of the measures, sorted: a table needs all of them first."""
    ledger = Ledger(FORMAT.export_causes, max_examples=0)
    return sorted({item.name for item in run.items(ledger) if item.kind == "measure"} - {"step", "elapsed_s"})


def _rows(run: ExportedRun, ledger: Ledger, columns: dict[str, int]) -> Iterator[list[str]]:
    row: list[str] = []
    record: object = None
    for item in run.items(ledger):
        at = columns.get(item.name) if item.kind == "measure" else None
        if at is None:
            ledger.drop(NO_PLACE, item.place, item.value)
            continue
        if item.record is not record:
            if row:
                yield row
            row = ["" if item.step is None else str(item.step), repr(item.t)] + [""] * len(columns)
            record = item.record
        row[at] = _cell(item, ledger)
        ledger.done()
    if row:
        yield row


def _cell(item: Item, ledger: Ledger) -> str:
    if item.value is None:
        ledger.changed(NULL, item.place, "null", "nan")
        return "nan"
    return repr(item.value)
