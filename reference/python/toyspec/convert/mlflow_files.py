"""Reads MLflow's file store into tables like those of its database, in a temporary database on the disk."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from toyspec.convert.formats import ForeignRun
from toyspec.convert.losses import DAMAGED
from toyspec.convert.mlflow_import import MlflowImport
from toyspec.convert.mlflow_others import artifacts_in, local_directory, note_elsewhere
from toyspec.convert.sources import drop_files, files_below, identity_of, size_of
from toyspec.files import open_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger

_META = "meta.yaml"
_OTHERS = ("inputs", "outputs")
_STATUS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_SCALAR = re.compile(r"([A-Za-z_]+): ?(.*)")
_LONGEST_TEXT = 1 << 20
_TABLES = (
    "CREATE TABLE runs (run_uuid, name, status, start_time, end_time, experiment_id)",
    "CREATE TABLE experiments (experiment_id, name)",
    "CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)",
    "CREATE TABLE params (key, value, run_uuid)",
    "CREATE TABLE tags (key, value, run_uuid)",
)


def file_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs of the file store in the directory *path* or below."""
    if not os.path.isdir(path):
        return
    for directory, (meta,) in files_below(path, lambda name: name == _META):
        known = read_meta(meta)
        if "run_id" not in known or known.get("lifecycle_stage") == "deleted":
            continue
        files = sorted(os.path.join(place, name) for place, _, names in os.walk(directory) for name in names)
        own = [file for file in files if not file.startswith(os.path.join(directory, "artifacts"))]
        yield ForeignRun(
            name=known.get("run_name") or known["run_id"],
            source=directory,
            identity=identity_of(own),
            size=size_of(own),
            events=partial(_events, directory, known),
        )


def _events(directory: str, known: dict[str, str], ledger: Ledger) -> Iterator[dict[str, Any] | bytes]:
    # An unnamed database is on the disk when it is large, and is deleted when it is closed.
    with closing(sqlite3.connect("")) as database:
        _fill(database, directory, known, ledger)
        others = partial(_others, directory, known, ledger)
        # Files have infinity as `inf`: the largest number is a number.
        yield from MlflowImport(database, known["run_id"], ledger, others, largest=inf).events()


def _others(directory: str, known: dict[str, str], ledger: Ledger, t: float) -> Iterator[dict[str, Any]]:
    artifacts = local_directory(known.get("artifact_uri"))
    # A store that was copied has its artifacts beside the metrics, whatever the address says.
    own = os.path.join(directory, "artifacts")
    if artifacts is None and not os.path.isdir(own):
        note_elsewhere(known.get("artifact_uri"), ledger)
    if artifacts is None or not os.path.isdir(artifacts):
        artifacts = own
    for other in (os.path.join(directory, name) for name in _OTHERS):
        drop_files(os.path.dirname(other), other, ledger)
    yield from artifacts_in(artifacts, t, ledger, is_own=os.path.realpath(artifacts) == os.path.realpath(own))


def read_meta(path: str) -> dict[str, str]:
    """Return the scalars of a ``meta.yaml``, which has no others."""
    found: dict[str, str] = {}
    for line in _text(path).splitlines():
        match = _SCALAR.fullmatch(line.rstrip())
        if match:
            found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return "" if text == "null" else text


def _text(path: str) -> str:
    with open_file(path) as file:
        return file.read(_LONGEST_TEXT).decode("utf-8", "backslashreplace")


def _fill(database: sqlite3.Connection, directory: str, known: dict[str, str], ledger: Ledger) -> None:
    for table in _TABLES:
        database.execute(table)
    run_id, experiment = known["run_id"], os.path.join(os.path.dirname(directory), _META)
    group = read_meta(experiment).get("name") if os.path.isfile(experiment) else None
    times = [int(known[key]) if known.get(key, "").isdecimal() else None for key in ("start_time", "end_time")]
    row = (run_id, known.get("run_name"), _STATUS.get(known.get("status", "")), *times, 1)
    database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
    database.execute("INSERT INTO experiments VALUES (1, ?)", (group,))
    for table in ("params", "tags"):
        for key, file in _keys(os.path.join(directory, table)):
            database.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (key, _text(file), run_id))  # noqa: S608
    for key, file in _keys(os.path.join(directory, "metrics")):
        database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", _metrics(key, file, run_id, ledger))
        ledger.advance(os.path.getsize(file))


def _keys(directory: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each key, its path below *directory*, and its file."""
    for place, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            yield os.path.relpath(path, directory).replace(os.sep, "/"), path


def _metrics(key: str, path: str, run_id: str, ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    with open_file(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_TEXT), b""), 1):
            parsed = _line(line.split()) if line.endswith(b"\n") else None
            if parsed is None:
                ledger.lose(DAMAGED, f"{key}, line {number}", line)
            else:
                value, timestamp, step = parsed
                is_nan = value != value  # noqa: PLR0124 - NaN alone differs from itself
                yield key, None if is_nan else value, timestamp, run_id, step, is_nan


def _line(words: list[bytes]) -> tuple[float, int, int] | None:
    """Return value, time in milliseconds and step of a line: time, value, step, or without a step in old ones."""
    try:
        timestamp, value = int(words[0]), float(words[1])
        step = int(words[2]) if len(words) > 2 else 0
    except (ValueError, IndexError):
        return None
    limit = 1 << 63
    return (value, timestamp, step) if -limit <= timestamp < limit and -limit <= step < limit else None
