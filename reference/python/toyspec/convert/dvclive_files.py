"""DVCLive's files: tables of metrics, parameters and the latest values; in both directions."""

from __future__ import annotations

import math
import os
import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.formats import ForeignRun
from toyspec.convert.losses import (
    DAMAGED,
    NO_PLACE,
    NULL,
    REPEATED,
    WITHOUT_STEP,
    as_measure,
    as_setting,
    at_step,
    is_number,
    step_member,
)
from toyspec.convert.sources import drop_files, files_below, head_of, identity_of, name_below, size_of
from toyspec.convert.timeline import Timeline, earliest
from toyspec.convert.yaml_text import parsed, written
from toyspec.errors import SourceError
from toyspec.files import open_file
from toyspec.format.flattening import flattened
from toyspec.logs.mapping import not_finite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger


_PLOTS = "plots"
_TABLES = os.path.join(_PLOTS, "metrics")
_LATEST = "metrics.json"
_PARAMS = "params.yaml"
_LONGEST = 1 << 24
_LIMIT = 1 << 63


def recognise(path: str) -> bool:
    """Return whether the directory *path*, or one below, is of DVCLive."""
    return next(_directories(path), None) is not None


def _directories(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        for directory, _ in files_below(path, lambda name: name == _LATEST):
            if os.path.isdir(os.path.join(directory, _TABLES)):
                yield directory


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run in the directory *path*, or in each such directory below."""
    found = False
    for directory in _directories(path):
        found = True
        tables = [file for _, files in files_below(os.path.join(directory, _TABLES), _is_table) for file in files]
        others = [os.path.join(directory, name) for name in (_LATEST, _PARAMS)]
        files = tables + [file for file in others if os.path.isfile(file)]
        name = name_below(path, directory)
        parts = (*files, os.path.join(directory, _PLOTS))
        read = partial(_events, directory, tables, name)
        yield ForeignRun(name, directory, identity_of(files), size_of(files), read, parts=parts)
    if not found:
        raise SourceError(path, f"no directory with {_LATEST} and {_TABLES}")


def _is_table(name: str) -> bool:
    return name.endswith(".tsv")


def _events(directory: str, tables: list[str], name: str, ledger: Ledger) -> Iterator[dict[str, Any]]:
    # Tables are merged by time and step on the disk: memory does not grow with them.
    with closing(sqlite3.connect("")) as merged:
        merged.execute("CREATE TABLE rows (wall, step, metric, value)")
        for table in tables:
            metric = os.path.relpath(table, os.path.join(directory, _TABLES)).replace(os.sep, "/")[: -len(".tsv")]
            merged.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", _rows(table, metric, ledger))
            ledger.advance(os.path.getsize(table))
        yield from _merged(merged, (directory, name), ledger)
    drop_files(directory, os.path.join(directory, _PLOTS), ledger, but=os.path.join(directory, _TABLES))


def _merged(rows: sqlite3.Connection, source: tuple[str, str], ledger: Ledger) -> Iterator[dict[str, Any]]:
    directory, name = source
    # One value without a time must not take the times of all others.
    timeline = Timeline(ledger, earliest(wall for (wall,) in rows.execute("SELECT DISTINCT wall FROM rows")))
    start = timeline.run_start(name=name)
    if timeline.start is None:
        ledger.note("the source has no times, so t is 0 in every record")
    config = _config(os.path.join(directory, _PARAMS), ledger)
    if config:
        start["config"] = config
    yield start
    for wall, step, metric, value in rows.execute("SELECT * FROM rows ORDER BY wall, step, metric"):
        place = at_step(step, metric)
        record: dict[str, Any] = {"kind": "scalars", "t": timeline.t(wall, place)}
        record |= step_member(step, place, ledger)
        record["values"] = {metric: as_measure(float(value), place, ledger)}
        ledger.done()
        yield record
    known = {metric for (metric,) in rows.execute("SELECT DISTINCT metric FROM rows")}
    yield from _latest(os.path.join(directory, _LATEST), known, timeline.last, ledger)


def _rows(path: str, metric: str, ledger: Ledger) -> Iterator[tuple[float | None, int, str, str]]:
    with open_file(path) as file:
        header = file.readline(_LONGEST).decode("utf-8", "backslashreplace").rstrip("\r\n").split("\t")
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), 2):
            ledger.items += 1
            place = f"{metric}, line {number}"
            row = line.decode("utf-8", "backslashreplace").rstrip("\r\n").split("\t")
            cells = dict(zip(header, row, strict=False)) if len(row) == len(header) else {}
            try:
                step, value = int(cells["step"]), float(cells[header[-1]])
                stamp = int(cells["timestamp"]) / 1000 if cells.get("timestamp") else None
            except (KeyError, ValueError, OverflowError):
                ledger.drop(DAMAGED, place, line)
                continue
            if not line.endswith(b"\n") or not -_LIMIT <= step < _LIMIT:
                ledger.drop(DAMAGED, place, line)
                continue
            yield stamp, step, metric, repr(value)


def _config(path: str, ledger: Ledger) -> dict[str, Any]:
    if not os.path.isfile(path):
        return {}
    try:
        config = parsed(head_of(path, _LONGEST).decode("utf-8", "backslashreplace"))
    except ValueError as error:
        ledger.lose(DAMAGED, _PARAMS, str(error))
        return {}
    ledger.items += len(config)
    for key, value in config.items():
        config[key] = as_setting(value, f"params: {key}", ledger)
        ledger.done()
    return config


def _latest(path: str, known: set[str], t: float, ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Yield the values of metrics.json that have no table."""
    try:
        document = msgspec.json.decode(head_of(path, _LONGEST))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # How deep is too deep, and how it is worded, depends on the version of Python.
        ledger.lose(DAMAGED, _LATEST, "nested too deep" if isinstance(error, RecursionError) else str(error))
        return
    values: dict[str, float | None] = {}
    hidden: list[tuple[str, Any]] = []
    members = flattened(document, hidden=hidden) if isinstance(document, dict) else {}
    for name, value in hidden:
        ledger.lose(REPEATED, f"{_LATEST}: {name}", value)
    for name, value in members.items():
        if name in known or name == "step":
            continue
        ledger.items += 1
        spelt = not_finite(value) if isinstance(value, str) else None
        if spelt is None and not is_number(value):
            ledger.drop(NO_PLACE, f"{_LATEST}: {name}", value)
            continue
        values[name] = as_measure(value if spelt is None else spelt, f"{_LATEST}: {name}", ledger)
        ledger.done()
    if values:
        yield {"kind": "scalars", "t": t, "values": values}


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write one directory for each of *runs*."""
    for run, ledger in runs:
        _Export(run, ledger, os.path.join(directory, run.run_id)).write()


class _Export:
    """Writes the files of one run."""

    def __init__(self, run: ExportedRun, ledger: Ledger, folder: str) -> None:
        self._run = run
        self._ledger = ledger
        self._folder = folder
        self._latest: dict[str, Any] = {}
        self._config: dict[str, Any] = {}
        self._step = 0
        # Keeping a file open for each metric could exceed what a process may have open.
        self._waiting: dict[str, list[str]] = {}

    def write(self) -> None:
        """Write all of it."""
        os.makedirs(os.path.join(self._folder, _TABLES))
        for item in self._run.items(self._ledger):
            if item.kind == "measure" and self._path(item.name) is not None:
                self._measure(item)
            elif item.kind == "setting":
                self._config[item.name] = item.value
            else:
                self._ledger.drop(NO_PLACE, item.place, item.value)
                continue
            self._ledger.done()
        for name in self._waiting:
            self._flush(name)
        document = msgspec.json.encode({**self._latest, "step": self._step})
        with open(os.path.join(self._folder, _LATEST), "wb") as file:
            file.write(msgspec.json.format(document, indent=4))
        config = self._run.start.get("config")
        if self._config and isinstance(config, dict):
            with open(os.path.join(self._folder, _PARAMS), "w", encoding="utf-8") as params:
                params.write(written(config))

    def _path(self, name: str) -> str | None:
        """Return the path of the table of *name*; None for a name that is not a path below the directory."""
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part or "\\" in part or len(part.encode()) > 250 for part in parts):
            return None
        return os.path.join(self._folder, _TABLES, *parts) + ".tsv"

    def _measure(self, item: Item) -> None:
        ledger = self._ledger
        if item.step is None:
            ledger.changed(WITHOUT_STEP, item.place, "no step", 0)
        if item.value is None:
            ledger.changed(NULL, item.place, "null", "nan")
        stamp = self._run.wall_ms(item, ledger)
        text = "nan" if item.value is None else repr(item.value)
        rows = self._waiting.setdefault(item.name, [])
        rows.append(f"{stamp}\t{item.step or 0}\t{text}\n")
        if len(rows) == 1000:
            self._flush(item.name)
        self._latest[item.name] = item.value if item.value is not None and math.isfinite(item.value) else text
        self._step = max(self._step, item.step or 0)

    def _flush(self, name: str) -> None:
        path = self._path(name)
        assert path is not None, "only such names wait"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        is_new = not os.path.exists(path)
        with open(path, "a", encoding="utf-8", newline="") as file:
            file.write(f"timestamp\tstep\t{os.path.basename(name)}\n" if is_new else "")
            file.write("".join(self._waiting[name]))
        self._waiting[name] = []
