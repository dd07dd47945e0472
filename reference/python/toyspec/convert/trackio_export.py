"""Writes toy/v1 runs through the storage of Trackio."""

from __future__ import annotations

import math
import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.alerts import level_word
from toyspec.convert.exported_runs import bins_of, by_record
from toyspec.convert.extras import needed
from toyspec.convert.incoming_files import MISSING_FILE
from toyspec.convert.losses import (
    NO_PLACE,
    NULL,
    PART_DROPPED,
    WITHOUT_STEP,
    Cause,
)
from toyspec.convert.shown_tables import rows_of
from toyspec.programs import PIPE, start_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

CLOCK = Cause("clock", "changed", "the run has no start, so the value has a time in 1970")

TYPES = {"image": "trackio.image", "audio": "trackio.audio", "video": "trackio.video"}
"""The type of a file with media of each group."""
TABLE, HISTOGRAM, TRACE = "trackio.table", "trackio.histogram", "trackio.trace"

_ROWS = 1000
_MAX_STEP = (1 << 63) - 1
# Trackio finds its directory when it is imported, so it is imported in a process of its own.
_PROGRAM = """
import json, sys
from trackio.sqlite_storage import SQLiteStorage
for line in sys.stdin:
    run = json.loads(line)
    alerts = run.pop("alerts")
    SQLiteStorage.bulk_log(**run)
    SQLiteStorage.bulk_alert(run["project"], run["run"], run_id=run["run_id"], **alerts)
"""


def write_runs(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write *runs* into ``<group>.db`` in *directory*."""
    needed("trackio", "trackio", "exporting to Trackio")
    environment = {**os.environ, "TRACKIO_DIR": directory, "HF_HUB_OFFLINE": "1"}
    with start_python("-c", _PROGRAM, stdin=PIPE, env=environment) as process:
        assert process.stdin is not None
        for run, ledger in runs:
            for call in _calls(run, ledger, directory):
                process.stdin.write(msgspec.json.encode(call) + b"\n")
        process.stdin.close()
        if process.wait() != 0:
            raise OSError(process.returncode, "Trackio could not write its database", directory)


def _calls(run: ExportedRun, ledger: Ledger, directory: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each call, with up to ``_ROWS`` rows."""
    call = _call(run)
    shown = _Shown(run, ledger, os.path.join(directory, "media"), call["project"])
    for items in by_record(run.items(ledger)):
        row: dict[str, Any] = {}
        for item in items:
            if item.kind == "setting" or (item.kind == "fact" and item.name in ("name", "group")):
                ledger.done()
            elif item.name == "alert" and item.kind == "record":
                shown.alert(item, call["alerts"])
            elif (value := shown.value(item)) is not None:
                row[_name_of(item)] = value
                step, t = item.step or 0, item.t
        if row:
            call["metrics_list"].append(row)
            call["steps"].append(step)
            call["timestamps"].append(row_time(run.wall(t)))
        if len(call["steps"]) == _ROWS:
            yield call
            call = _call(run)
    if call["steps"] or call["alerts"]["titles"]:
        yield call


def _name_of(item: Item) -> str:
    is_shown = item.kind == "record" and item.name in ("media", "histogram", "sample")
    return str(item.value.get("name") or item.value.get("group") or item.name) if is_shown else item.name


class _Shown:
    """Makes the values of rows, and copies the files of media to where Trackio looks for them."""

    def __init__(self, run: ExportedRun, ledger: Ledger, media: str, project: str) -> None:
        self._run = run
        self._ledger = ledger
        self._media = media
        self._project = project

    def value(self, item: Item) -> Any:
        """Return the value of *item* in a row; None, and the item dropped, if Trackio has no place for it."""
        ledger = self._ledger
        made: Any = None
        if (item.step or 0) > _MAX_STEP:
            pass
        elif item.kind == "measure":
            made = _number(self._run, item, ledger)
        elif item.kind == "text":
            made = item.value
        elif item.kind == "record" and item.name == "histogram":
            bins = bins_of(item.value)
            made = None if bins is None else {"_type": HISTOGRAM, "bins": bins[0], "values": bins[1]}
        elif item.kind == "record" and item.name == "sample" and item.value.get("messages"):
            self._count(item, {"messages", "group", "prompt", "text"})
            made = {"_type": TRACE, "messages": item.value["messages"], "metadata": {}}
        elif item.kind == "record" and item.name == "media":
            path = self._run.file_of(item.value)
            if path is None:
                ledger.drop(MISSING_FILE, item.place, item.value)
                return None
            made = self._file(item, path)
        if made is None:
            ledger.drop(NO_PLACE, item.place, item.value)
        else:
            ledger.done()
        return made

    def _count(self, item: Item, kept: set[str]) -> None:
        left = sorted(item.value.keys() - kept - {"kind", "t", "phase", "step", "name"})
        if left:
            self._ledger.changed(PART_DROPPED, item.place, ", ".join(left))

    def _file(self, item: Item, path: str) -> dict[str, Any] | None:
        value = item.value
        media_type = str(value.get("media_type"))
        if media_type == "text/csv":
            table = rows_of(path)
            self._count(item, {"sha256", "size_bytes", "media_type"})
            rows = None if table is None else [dict(zip(table[0], row, strict=True)) for row in table[1]]
            return None if rows is None else {"_type": TABLE, "_value": rows}
        group = media_type.partition("/")[0]
        if group not in TYPES:
            return None
        self._count(item, {"sha256", "size_bytes", "media_type", "caption", "width", "height", "seconds"})
        place = os.path.join(self._project, self._run.run_id, str(item.step or 0), os.path.basename(path))
        target = os.path.join(self._media, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(path, target)
        return {"_type": TYPES[group], "file_path": place, "caption": value.get("caption")}

    def alert(self, item: Item, alerts: dict[str, list[Any]]) -> None:
        """Add an alert to the arguments *alerts*."""
        value = item.value
        self._count(item, {"rule", "level", "text"})
        alerts["titles"].append(str(value.get("rule")))
        alerts["texts"].append(str(value.get("text")))
        alerts["levels"].append(level_word(value.get("level")))
        alerts["steps"].append(item.step)
        alerts["timestamps"].append(row_time(self._run.wall(item.t)))
        self._ledger.done()


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
        "alerts": {"titles": [], "texts": [], "levels": [], "steps": [], "timestamps": []},
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
