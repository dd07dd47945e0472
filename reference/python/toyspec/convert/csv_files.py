"""CSV tables of the measures of runs, with a row for each step, and of the texts of those that have any."""

from __future__ import annotations

import csv
import os
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from toyspec.convert.losses import NO_PLACE, NULL, Cause, Ledger

if TYPE_CHECKING:
    from _csv import Writer
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item

TIME_OF_ROW = Cause("time-of-row", "changed", "the value has the time of the first value at its step")

# A later value at a step whose row was written begins a new row of that step.
_OPEN_ROWS = 4096


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write one table for each of *runs*."""
    for run, ledger in runs:
        folder = os.path.join(directory, run.run_id)
        os.makedirs(folder)
        names, has_texts = _contents(run)
        with ExitStack() as stack:
            table = stack.enter_context(_table(folder, "metrics.csv", ["step", "elapsed_s", *names]))
            texts = None
            if has_texts:
                # Without a column `step`, it is not read as the log of one more run.
                texts = stack.enter_context(_table(folder, "texts.csv", ["at_step", "elapsed_s", "name", "text"]))
            columns = {name: index for index, name in enumerate(names, 2)}
            for row in _rows(run, ledger, columns, texts):
                table.writerow(row)


@contextmanager
def _table(folder: str, name: str, header: list[str]) -> Iterator[Writer]:
    """Write the table *name* in *folder*, which begins with *header*."""
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        yield table


def _contents(run: ExportedRun) -> tuple[list[str], bool]:
    """Return the names of the measures, sorted, and whether there are texts: a table needs all of them first."""
    names, has_texts = set[str](), False
    for item in run.items(Ledger()):
        if item.kind == "measure":
            names.add(item.name)
        has_texts = has_texts or item.kind == "text"
    return sorted(names - {"step", "elapsed_s"}), has_texts


def _rows(run: ExportedRun, ledger: Ledger, columns: dict[str, int], texts: Writer | None) -> Iterator[list[str]]:
    """Yield the rows in the order in which their steps first occur; write each text to *texts*."""
    rows: deque[_Row] = deque()
    latest: dict[object, _Row] = {}
    for item in run.items(ledger):
        if texts is not None and item.kind == "text":
            texts.writerow(["" if item.step is None else item.step, repr(item.t), item.name, item.value])
            ledger.done()
            continue
        at = columns.get(item.name) if item.kind == "measure" else None
        if at is None:
            ledger.drop(NO_PLACE, item.place, item.value)
            continue
        key = item.step if item.step is not None else item.place.partition(":")[0]
        row = latest.get(key)
        if row is None or row.cells[at]:
            step = "" if item.step is None else str(item.step)
            row = latest[key] = _Row(key, item.t, [step, repr(item.t)] + [""] * len(columns))
            rows.append(row)
            if len(rows) > _OPEN_ROWS:
                first = rows.popleft()
                yield first.cells
                if latest[first.key] is first:
                    del latest[first.key]
        elif row.t != item.t:
            ledger.changed(TIME_OF_ROW, item.place, item.t, row.t)
        row.cells[at] = _cell(item, ledger)
        ledger.done()
    yield from (row.cells for row in rows)


class _Row(NamedTuple):
    """A row that may get more cells."""

    key: object
    t: float
    cells: list[str]


def _cell(item: Item, ledger: Ledger) -> str:
    if item.value is None:
        ledger.changed(NULL, item.place, "null", "nan")
        return "nan"
    return repr(item.value)
