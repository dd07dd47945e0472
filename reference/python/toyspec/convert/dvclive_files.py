"""DVCLive's files: tables of metrics, parameters and the latest values; in both directions."""

from __future__ import annotations

import math
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.databases import Points
from toyspec.convert.formats import ForeignRun
from toyspec.convert.losses import (
    DAMAGED,
    NO_PLACE,
    NULL,
    REPEATED,
    WITHOUT_STEP,
)
from toyspec.convert.sources import drop_files, files_below, head_of, identity_of, name_below, size_of
from toyspec.convert.timeline import earliest
from toyspec.convert.yaml_text import parsed, written
from toyspec.errors import SourceError
from toyspec.files import open_file
from toyspec.format.flattening import flattened
from toyspec.logs.mapping import not_finite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.intake import Intake
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
        read = partial(_records, directory, tables, name)
        yield ForeignRun(name, directory, identity_of(files), size_of(files), read, parts=parts)
    if not found:
        raise SourceError(path, f"no directory with {_LATEST} and {_TABLES}")


def _is_table(name: str) -> bool:
    return name.endswith(".tsv")


def _records(directory: str, tables: list[str], name: str, intake: Intake) -> Iterator[bytes]:
    ledger = intake.ledger
    with Points() as points:
        for table in tables:
            metric = os.path.relpath(table, os.path.join(directory, _TABLES)).replace(os.sep, "/")[: -len(".tsv")]
            points.add(_points(table, metric, ledger))
            ledger.advance(os.path.getsize(table))
        # One value without a time must not take the times of all others.
        first = earliest(points.walls())
        yield from intake.begin(first, name=name, config=_config(os.path.join(directory, _PARAMS), ledger))
        if first is None:
            ledger.note("the source has no times, so t is 0 in every record")
        yield from points.lines(intake)
        yield from _latest(os.path.join(directory, _LATEST), points.metrics(), intake)
    drop_files(directory, os.path.join(directory, _PLOTS), ledger, but=os.path.join(directory, _TABLES))


def _points(path: str, metric: str, ledger: Ledger) -> Iterator[tuple[float | None, int, None, str, float]]:
    with open_file(path) as file:
        header = file.readline(_LONGEST).decode("utf-8", "backslashreplace").rstrip("\r\n").split("\t")
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), 2):
            row = line.decode("utf-8", "backslashreplace").rstrip("\r\n").split("\t")
            cells = dict(zip(header, row, strict=False)) if len(row) == len(header) else {}
            try:
                step, value = int(cells["step"]), float(cells[header[-1]])
                stamp = int(cells["timestamp"]) / 1000 if cells.get("timestamp") else None
                is_whole = line.endswith(b"\n") and -_LIMIT <= step < _LIMIT
            except (KeyError, ValueError, OverflowError):
                is_whole = False
            if is_whole:
                yield stamp, step, None, metric, value
            else:
                ledger.lose(DAMAGED, f"{metric}, line {number}", line)


def _config(path: str, ledger: Ledger) -> dict[str, Any]:
    try:
        return parsed(head_of(path, _LONGEST).decode("utf-8", "backslashreplace")) if os.path.isfile(path) else {}
    except ValueError as error:
        ledger.lose(DAMAGED, _PARAMS, str(error))
        return {}


def _latest(path: str, known: set[str], intake: Intake) -> Iterator[bytes]:
    """Yield the values of metrics.json that have no table."""
    try:
        document = msgspec.json.decode(head_of(path, _LONGEST))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # How deep is too deep, and how it is worded, depends on the version of Python.
        fact = "nested too deep" if isinstance(error, RecursionError) else str(error)
        intake.ledger.lose(DAMAGED, _LATEST, fact)
        return
    hidden: list[tuple[str, Any]] = []
    members = flattened(document, hidden=hidden) if isinstance(document, dict) else {}
    for name, value in hidden:
        intake.ledger.lose(REPEATED, f"{_LATEST}: {name}", value, name=name)
    values = {name: value for name, value in members.items() if name not in known and name != "step"}
    spelt = {name: not_finite(value) for name, value in values.items() if isinstance(value, str)}
    values |= {name: value for name, value in spelt.items() if value is not None}
    yield from intake.values(None, None, values, _LATEST)


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
