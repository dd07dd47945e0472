"""The history of W&B runs as Parquet, as its cloud exports it: one row for each step, one column for each key."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun
from toyspec.convert.parquet import has_columns, opened_table
from toyspec.convert.reports import (
    NO_PLACE,
    at_step,
)
from toyspec.convert.sources import files_below, name_below, object_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake
    from toyspec.convert.reports import Ledger

_SUFFIX = ".parquet"
_OWN = ("_step", "_timestamp", "_runtime", "_wandb")
_BATCH = 1 << 12
_METADATA, _CONFIG, _SUMMARY = "wandb-metadata.json", "config.json", "wandb-summary.json"
_LONGEST_LIST = 256


def _is_history(path: str) -> bool:
    is_named = path.endswith(_SUFFIX) and has_columns(path, ["_step"])
    return is_named and (has_columns(path, ["_timestamp"]) or has_columns(path, ["_runtime"]))


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
    for files in _groups(path):
        directory, own = os.path.dirname(files[0]), os.path.basename(files[0]).removesuffix(_SUFFIX)
        is_part = own.isdigit()
        name = name_below(path if os.path.isdir(path) else directory, directory) if is_part else own
        source = directory if is_part else files[0]
        yield ForeignRun.of(name, source, files, partial(_records, tuple(files), name))


def _records(files: tuple[str, ...], name: str, intake: Intake) -> Iterator[bytes]:
    tables = [opened_table(file) for file in files]
    columns = {column for table in tables for column in table.schema_arrow.names}
    clock = "_timestamp" if "_timestamp" in columns else "_runtime"
    first = _first(tables, clock) if clock == "_timestamp" else 0.0
    yield from intake.begin(first, name=name, **_described(os.path.dirname(files[0]), intake.ledger))
    for file, table in zip(files, tables, strict=True):
        for batch in table.iter_batches(_BATCH):
            for row in batch.to_pylist():
                moment, step = row.get(clock), row.get("_step")
                wall = None if moment is None else _seconds(moment)
                values: dict[str, Any] = {}
                for key, value in row.items():
                    if key not in _OWN and value is not None:
                        values |= _flat(key, value, at_step(step), intake.ledger)
                yield from intake.values(wall, step, values, at_step(step))
        intake.ledger.advance(os.path.getsize(file))


def _flat(name: str, value: Any, place: str, ledger: Ledger) -> dict[str, Any]:
    """Return *value* by its *name*, or the members of an inner object or a short list, after it and a dot."""
    inner: dict[Any, Any] = {}
    if isinstance(value, dict):
        if "_type" in value:
            ledger.lose(NO_PLACE, f"{place}: {name}", value, name=name)
            return {}
        inner = value
    elif isinstance(value, list) and len(value) <= _LONGEST_LIST:
        inner = dict(enumerate(value))
    else:
        return {name: value}
    found: dict[str, Any] = {}
    for key, each in inner.items():
        if each is not None:
            found |= _flat(f"{name}.{key}", each, place, ledger)
    return found


def _first(tables: list[Any], clock: str) -> float | None:
    for table in tables:
        for batch in table.iter_batches(_BATCH, columns=[clock]):
            found = next((value for value in batch.column(0).to_pylist() if value is not None), None)
            if found is not None:
                return _seconds(found)
    return None


def _seconds(value: Any) -> float:
    return float(value.timestamp() if hasattr(value, "timestamp") else value)


def _described(directory: str, ledger: Ledger) -> dict[str, Any]:
    """Return what the files beside the history say of the run."""
    rest = object_in(os.path.join(directory, _METADATA)) or {}
    facts: dict[str, Any] = {"config": object_in(os.path.join(directory, _CONFIG)), "rest": rest}
    git, args = rest.pop("git", None), rest.get("args")
    if isinstance(git, dict) and isinstance(git.get("commit"), str):
        facts["git"] = {"sha": git["commit"]}
    if isinstance(rest.get("host"), str):
        facts["host"] = {"name": rest.pop("host")}
    if isinstance(args, list) and all(isinstance(each, str) for each in args):
        facts["argv"] = [str(rest.pop("program", "")), *rest.pop("args")]
    if os.path.isfile(os.path.join(directory, _SUMMARY)):
        ledger.note(f"{_SUMMARY} has the last values, which the history has")
    return facts
