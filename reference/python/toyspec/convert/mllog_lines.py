"""MLPerf logs: written here; the dialect ``mllog`` reads them."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.convert.dialect_logs import DialectImporter
from toyspec.convert.losses import (
    NO_PLACE,
    NULL,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger


_READER = DialectImporter("mllog")
recognise = _READER.recognise
find_runs = _READER.find_runs


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write one log for each of *runs*."""
    for run, ledger in runs:
        folder = os.path.join(directory, run.run_id)
        os.makedirs(folder)
        with open(os.path.join(folder, "result_0.txt"), "w", encoding="utf-8") as file:
            items = _apart(run.items(ledger))
            # Settings are not lines of their own: a line with a number is a point of a curve.
            settings = {"config": {item.name: item.value for item in items.settings}} if items.settings else {}
            for _ in items.settings:
                ledger.done()
            _line(file, run.wall(0.0), "init_start", None, event_type="INTERVAL_START", metadata=settings)
            for item in items.others:
                _put(file, run, item, ledger)


class _Items(NamedTuple):
    settings: list[Item]
    others: Iterator[Item]


def _apart(items: Iterator[Item]) -> _Items:
    """Return the settings, which the first of *items* are, and the other items; only those before a value are read."""
    settings: list[Item] = []
    before: list[Item] = []
    for item in items:
        (settings if item.kind == "setting" else before).append(item)
        if item.kind == "measure":
            break
    return _Items(settings, chain(before, items))


def _put(file: TextIO, run: ExportedRun, item: Item, ledger: Ledger) -> None:
    wall = run.wall(item.t)
    if item.kind == "end" and item.name == "reason":
        status = "success" if item.value == "completed" else "aborted"
        _line(file, wall, "run_stop", None, event_type="INTERVAL_END", metadata={"status": status})
    elif item.kind in ("measure", "setting"):
        # A setting after the first value is one that changed: its time is known.
        if item.kind == "measure" and item.value is None:
            ledger.changed(NULL, item.place, "null", "NaN")
        run.wall_ms(item, ledger)
        value = float("nan") if item.kind == "measure" and item.value is None else item.value
        _line(file, wall, item.name, value, metadata={} if item.step is None else {"step_num": item.step})
    else:
        ledger.drop(NO_PLACE, item.place, item.value)
        return
    ledger.done()


def _line(file: TextIO, wall: float, key: str, value: Any, **members: Any) -> None:
    """Write a line; *members* are its event_type and its metadata."""
    import json

    record = {
        "namespace": "",
        "time_ms": round(wall * 1000),
        "event_type": members.get("event_type", "POINT_IN_TIME"),
        "key": key,
        "value": value,
        "metadata": members.get("metadata", {}),
    }
    # MLPerf's own logger writes bare NaN, and its checker reads it.
    file.write(f":::MLLOG {json.dumps(record)}\n")
