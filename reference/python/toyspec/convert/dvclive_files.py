"""DVCLive's files: tables of metrics, parameters and the latest values; in both directions."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.databases import Points
from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest
from toyspec.convert.reports import (
    DAMAGED,
    REPEATED,
)
from toyspec.convert.sources import drop_files, files_at, files_below, head_of, name_below
from toyspec.convert.yaml_text import parsed
from toyspec.core.files import open_file
from toyspec.core.format.flattening import flattened
from toyspec.logs.mapping import not_finite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake
    from toyspec.convert.reports import Ledger


_PLOTS = "plots"
TABLES = os.path.join(_PLOTS, "metrics")
LATEST = "metrics.json"
PARAMS = "params.yaml"
_LONGEST = 1 << 24
_LIMIT = 1 << 63


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the run in the directory *path*, and in each such directory below."""
    for directory, _ in files_below(path, lambda name: name == LATEST) if os.path.isdir(path) else ():
        if os.path.isdir(os.path.join(directory, TABLES)):
            tables = list(files_at(os.path.join(directory, TABLES), lambda name: name.endswith(".tsv")))
            others = [os.path.join(directory, name) for name in (LATEST, PARAMS)]
            files = tables + [file for file in others if os.path.isfile(file)]
            name, parts = name_below(path, directory), (*files, os.path.join(directory, _PLOTS))
            yield ForeignRun.of(name, directory, files, partial(_records, directory, tables, name), parts=parts)


def _records(directory: str, tables: list[str], name: str, intake: Intake) -> Iterator[bytes]:
    ledger = intake.ledger
    with Points() as points:
        for table in tables:
            metric = os.path.relpath(table, os.path.join(directory, TABLES)).replace(os.sep, "/")[: -len(".tsv")]
            points.add(_points(table, metric, ledger))
            ledger.advance(os.path.getsize(table))
        # One value without a time must not take the times of all others.
        first = earliest(points.walls())
        yield from intake.begin(first, name=name, config=_config(os.path.join(directory, PARAMS), ledger))
        if first is None:
            ledger.note("the source has no times, so t is 0 in every record")
        yield from points.lines(intake)
        yield from _latest(os.path.join(directory, LATEST), points.metrics(), intake)
    drop_files(directory, os.path.join(directory, _PLOTS), ledger, but=os.path.join(directory, TABLES))


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
        ledger.lose(DAMAGED, PARAMS, str(error))
        return {}


def _latest(path: str, known: set[str], intake: Intake) -> Iterator[bytes]:
    """Yield the values of metrics.json that have no table."""
    try:
        document = msgspec.json.decode(head_of(path, _LONGEST))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # How deep is too deep, and how it is worded, depends on the version of Python.
        fact = "nested too deep" if isinstance(error, RecursionError) else str(error)
        intake.ledger.lose(DAMAGED, LATEST, fact)
        return
    hidden: list[tuple[str, Any]] = []
    members = flattened(document, hidden=hidden) if isinstance(document, dict) else {}
    for name, value in hidden:
        intake.ledger.lose(REPEATED, f"{LATEST}: {name}", value, name=name)
    values = {name: value for name, value in members.items() if name not in known and name != "step"}
    spelt = {name: not_finite(value) for name, value in values.items() if isinstance(value, str)}
    values |= {name: value for name, value in spelt.items() if value is not None}
    yield from intake.values(None, None, values, LATEST)
