"""The history of W&B runs as Parquet, as its cloud exports it: one row for each step, one column for each key."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.admission import Admission
from toyspec.convert.formats import ForeignRun
from toyspec.convert.losses import (
    INVALID,
    NO_PLACE,
    at_step,
    step_member,
)
from toyspec.convert.parquet import has_columns, opened_table
from toyspec.convert.sources import files_below, identity_of, name_below, object_in, size_of
from toyspec.convert.timeline import Timeline
from toyspec.errors import SourceError
from toyspec.writing.logged_values import nonfinite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger

_SUFFIX = ".parquet"
_OWN = ("_step", "_timestamp", "_runtime")
_BATCH = 1 << 12
_METADATA, _CONFIG, _SUMMARY = "wandb-metadata.json", "config.json", "wandb-summary.json"
_LONGEST_LIST = 256


def _is_history(path: str) -> bool:
    is_named = path.endswith(_SUFFIX) and has_columns(path, ["_step"])
    return is_named and (has_columns(path, ["_timestamp"]) or has_columns(path, ["_runtime"]))


def recognise(path: str) -> bool:
    """Return whether *path* is such a file, or a directory with some."""
    return next(_groups(path), None) is not None


def _groups(path: str) -> Iterator[list[str]]:
    if not os.path.isdir(path):
        if _is_history(path):
            yield [path]
        return
    for _, found in files_below(path, lambda name: name.endswith(_SUFFIX)):
        files = [file for file in found if _is_history(file)]
        # Parts are numbered; other files of a directory are runs of their own.
        if files and all(os.path.basename(file).removesuffix(_SUFFIX).isdigit() for file in files):
            yield files
        else:
            yield from ([file] for file in files)


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs at *path*."""
    found = False
    for files in _groups(path):
        found = True
        directory = os.path.dirname(files[0])
        is_part = os.path.basename(files[0]).removesuffix(_SUFFIX).isdigit()
        own = os.path.basename(files[0]).removesuffix(_SUFFIX)
        name = name_below(path if os.path.isdir(path) else directory, directory) if is_part else own
        yield ForeignRun(
            name=name,
            source=directory if is_part else files[0],
            identity=identity_of(files),
            size=size_of(files),
            events=partial(_events, tuple(files), name),
            parts=tuple(files),
        )
    if not found:
        raise SourceError(path, "no Parquet file with the columns _step and _timestamp or _runtime")


def _events(files: tuple[str, ...], name: str, ledger: Ledger) -> Iterator[dict[str, Any] | bytes]:
    directory = os.path.dirname(files[0])
    said = _described(directory, ledger)
    tables = [opened_table(file) for file in files]
    columns = {column for table in tables for column in table.schema_arrow.names}
    clock = "_timestamp" if "_timestamp" in columns else "_runtime"
    first = _first(tables, clock) if clock == "_timestamp" else 0.0
    timeline = Timeline(ledger, first)
    start = timeline.run_start(name=name, **said)
    admission = Admission(ledger, INVALID)
    admission.begin(start)
    yield start
    for file, table in zip(files, tables, strict=True):
        for batch in table.iter_batches(_BATCH):
            for row in batch.to_pylist():
                yield from _of_row(row, clock, (timeline, admission, ledger))
        ledger.advance(os.path.getsize(file))


def _first(tables: list[Any], clock: str) -> float | None:
    for table in tables:
        for batch in table.iter_batches(_BATCH, columns=[clock]):
            found = next((value for value in batch.column(0).to_pylist() if value is not None), None)
            if found is not None:
                return _seconds(found)
    return None


def _seconds(value: Any) -> float:
    return float(value.timestamp() if hasattr(value, "timestamp") else value)


def _of_row(row: dict[str, Any], clock: str, tools: tuple[Timeline, Admission, Ledger]) -> Iterator[bytes]:
    timeline, admission, ledger = tools
    place = at_step(row.get("_step"))
    moment = row.get(clock)
    record: dict[str, Any] = {"kind": "scalars", "t": timeline.t(None if moment is None else _seconds(moment), place)}
    cells = [(name, value) for name, value in row.items() if name not in _OWN and value is not None]
    values: dict[str, float] = {}
    texts: dict[str, str] = {}
    for name, value in cells:
        if name == "_wandb" or not _take(name, value, values, texts):
            ledger.lose(NO_PLACE, f"{place}: {name}", value)
    if not values and not texts:
        return
    record |= {"values": values} | ({"texts": texts} if texts else {})
    marks = nonfinite("scalars", record)
    ledger.items += 1
    record |= step_member(row.get("_step"), place, ledger)
    yield from admission.lines(record | ({"nonfinite": marks} if marks else {}), place)


def _take(name: str, value: Any, values: dict[str, float], texts: dict[str, str]) -> bool:
    """Put *value* into *values* or *texts*; return False if a part of it has no place there."""
    if isinstance(value, bool | int | float):
        values[name] = float(value)
        return True
    if isinstance(value, str):
        texts[name] = value
        return True
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict) and "_type" not in value:
        inner = [(str(key), each) for key, each in value.items() if each is not None]
    elif isinstance(value, list) and len(value) <= _LONGEST_LIST:
        inner = [(str(index), each) for index, each in enumerate(value) if each is not None]
    # Each is taken, also after one that has no place.
    taken = [_take(f"{name}.{key}", each, values, texts) for key, each in inner]
    return bool(inner) and all(taken)


def _described(directory: str, ledger: Ledger) -> dict[str, Any]:
    """Return what the files beside the history say of the run, as members of ``run_start``."""
    said = object_in(os.path.join(directory, _METADATA)) or {}
    start: dict[str, Any] = {}
    config = object_in(os.path.join(directory, _CONFIG))
    if config:
        ledger.carry(len(config))
        start["config"] = config
    git = said.pop("git", None)
    if isinstance(git, dict) and isinstance(git.get("commit"), str):
        start["git"] = {"sha": git["commit"]}
    if isinstance(said.get("host"), str):
        start["host"] = {"name": said.pop("host")}
    if isinstance(said.get("args"), list) and all(isinstance(each, str) for each in said["args"]):
        start["argv"] = [str(said.pop("program", "")), *said.pop("args")]
    ledger.carry(len(start.keys() - {"config"}))
    for name, value in said.items():
        ledger.lose(NO_PLACE, f"{_METADATA}: {name}", value)
    if os.path.isfile(os.path.join(directory, _SUMMARY)):
        ledger.lose(NO_PLACE, _SUMMARY, "the last values, which the history has")
    return start
