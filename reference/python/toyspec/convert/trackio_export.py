"""Writes toy/v1 runs through the storage of Trackio."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.exported_runs import by_record
from toyspec.convert.extras import needed
from toyspec.convert.losses import NO_PLACE, NULL, Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

CLOCK = Cause("clock", "changed", "the run has no start, so the value has a time in 1970")
WITHOUT_STEP = Cause("without-step", "changed", "a value without a step is written at step 0")

_ROWS = 1000
_MAX_STEP = (1 << 63) - 1
# Trackio finds its directory when it is imported, so it is imported in a process of its own.
_PROGRAM = """
import json, sys
from trackio.sqlite_storage import SQLiteStorage
for line in sys.stdin:
    run = json.loads(line)
    SQLiteStorage.bulk_log(**run)
"""


def write_runs(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write *runs* into ``<group>.db`` in *directory*."""
    needed("trackio", "trackio", "exporting to Trackio")
    environment = {**os.environ, "TRACKIO_DIR": directory, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        for run, ledger in runs:
            for call in _calls(run, ledger):
                process.stdin.write(msgspec.json.encode(call) + b"\n")
        process.stdin.close()
        if process.wait() != 0:
            raise OSError(process.returncode, "Trackio could not write its database", directory)


def _calls(run: ExportedRun, ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each call, with up to ``_ROWS`` rows."""
    call = _call(run)
    for items in by_record(run.items(ledger)):
        row: dict[str, Any] = {}
        for item in items:
            if item.kind == "measure" and (item.step or 0) <= _MAX_STEP:
                row[item.name] = _number(run, item, ledger)
                step, t = item.step or 0, item.t
                ledger.done()
            elif item.kind == "setting" or (item.kind == "fact" and item.name in ("name", "group")):
                ledger.done()
            else:
                ledger.drop(NO_PLACE, item.place, item.value)
        if row:
            call["metrics_list"].append(row)
            call["steps"].append(step)
            call["timestamps"].append(row_time(run.wall(t)))
        if len(call["steps"]) == _ROWS:
            yield call
            call = _call(run)
    if call["steps"]:
        yield call


def _call(run: ExportedRun) -> dict[str, Any]:
    start = run.start
    group, config = start.get("group"), start.get("config")
    settings = {**(config if isinstance(config, dict) else {}), **({"_Group": group} if group else {})}
    name = start.get("name")
    return {
        "project": project_name(str(group or "toyspec")),
        "run": name if isinstance(name, str) and name else run.run_id,
        "run_id": run.run_id,
        "metrics_list": [],
        "steps": [],
        "timestamps": [],
        "config": settings,
    }


def _number(run: ExportedRun, item: Item, ledger: Ledger) -> Any:
    if item.step is None:
        ledger.changed(WITHOUT_STEP, item.place, "no step", 0)
    if run.started is None:
        ledger.changed(CLOCK, item.place, item.t, row_time(item.t))
    if item.value is None:
        ledger.changed(NULL, item.place, "null", "NaN")
    return shown_number(item.value)


def project_name(name: str) -> str:
    """Return the nearest name that a project of Trackio can have: it is the name of a file."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)


def row_time(wall: float) -> str:
    """Return *wall*, in seconds since the Unix epoch, as the timestamp of a row."""
    return datetime.fromtimestamp(wall, UTC).isoformat()


def shown_number(value: float | None) -> float | str:
    """Return a number as it is in a row: what is not finite is a text."""
    if value is None:
        return "NaN"
    return value if math.isfinite(value) else str(value)
