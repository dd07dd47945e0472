"""MLflow: the SQLite database and the file store, read without MLflow; written through its client."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from functools import partial
from math import copysign, inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from toyspec.convert.databases import databases_with, files_of, opened, queried, runs_of
from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest, is_wall
from toyspec.convert.reports import DAMAGED, NO_PLACE, NOT_UTF8, Cause, at_step
from toyspec.convert.sources import drop_files, files_below, number_in
from toyspec.core.files import open_file
from toyspec.core.format.numbers import digits_of
from toyspec.core.places.addresses import without_secrets
from toyspec.core.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake
    from toyspec.convert.reports import Ledger

CLAMPED = Cause("clamped", "changed", "the largest number stands for an infinity, which MLflow cannot keep")
STAYS = Cause(
    "file-stays",
    "changed",
    "the artifacts stay where they are: a `reference` names the place",
)
TAG = Cause("tag", "changed", "a tag with a value becomes one text, `key=value`")

_TABLES = frozenset(["runs", "metrics", "params", "tags", "experiments"])
_LARGEST = 1.7976931348623157e308
_REASONS = {"FINISHED": "completed", "FAILED": "errored", "KILLED": "aborted"}
_NAMED_TAGS = {"mlflow.runName": "name", "mlflow.note.content": "notes"}
_COMMIT = "mlflow.source.git.commit"
_RUNS = "SELECT run_uuid, name FROM runs WHERE lifecycle_stage != 'deleted' ORDER BY start_time, run_uuid"
_RUN = (
    "SELECT runs.name, runs.status, runs.start_time, runs.end_time, runs.artifact_uri, experiments.name FROM runs "
    "LEFT JOIN experiments ON runs.experiment_id = experiments.experiment_id WHERE run_uuid = ?"
)
_FIRST = "SELECT min(timestamp) FROM metrics WHERE run_uuid = ? AND timestamp > 0"
_METRICS = "SELECT key, value, timestamp, step, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step, key"
_DATASETS = (
    "SELECT datasets.name FROM inputs LEFT JOIN datasets ON inputs.source_id = datasets.dataset_uuid "
    "WHERE inputs.destination_type = 'RUN' AND inputs.destination_id = ?"
)
_NAMES = "SELECT name FROM sqlite_master WHERE type = ?"
_META = "meta.yaml"
_OTHERS = ("inputs", "outputs")
_STATUS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_SCALAR = re.compile(r"([A-Za-z_]+): ?(.*)")
_REMOTE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:")
_LONGEST_TEXT = 1 << 20
# The tables of the database, for the files of one run.
_FILE_TABLES = (
    "CREATE TABLE runs (run_uuid, name, status, start_time, end_time, artifact_uri, experiment_id)",
    "CREATE TABLE experiments (experiment_id, name)",
    "CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)",
    "CREATE TABLE params (key, value, run_uuid)",
    "CREATE TABLE tags (key, value, run_uuid)",
)


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs of the databases and the file stores at *path*, a file or a directory, and below."""
    found, refused = runs_of(databases_with(_TABLES, path), _RUNS)
    for database, run_id, name in found:
        read = partial(_of_database, database, run_id)
        source, files = f"{database}#{run_id}", files_of(database)
        yield ForeignRun.of(str(name or run_id), source, files, read, run_id, share=len(found), parts=[database])
    yield from _file_runs(path)
    if refused:
        raise refused[0]


def _of_database(path: str, run_id: str, intake: Intake) -> Iterator[bytes]:
    # Opened with the first record: records that nothing asks for leave no database open.
    with closing(opened(path)) as database:
        yield from _records(database, run_id, intake, folder=os.path.dirname(path))


def _records(
    database: sqlite3.Connection, run_id: str, intake: Intake, largest: float = _LARGEST, folder: str = ""
) -> Iterator[bytes]:
    """Yield the lines of one run of a store in *folder*; *largest* is the store's infinity."""
    ledger = intake.ledger
    rows = partial(queried, database, run_id=run_id, ledger=ledger)
    name, status, start, end, artifacts, group = next(rows(_RUN), (None,) * 6)
    # One value without a time must not take the times of all others that are before the start.
    first = next(rows(_FIRST), (None,))[0]
    config = {str(key): value for key, value in rows("SELECT key, value FROM params WHERE run_uuid = ?")}
    facts: dict[str, Any] = {"name": name and str(name), "group": group and str(group), "tags": []}
    rest: dict[str, str] = {}
    for key, value in rows("SELECT key, value FROM tags WHERE run_uuid = ? ORDER BY key"):
        _take_tag(str(key), str(value or ""), facts, rest, ledger)
    wall = earliest(ms / 1000 for ms in (start, first) if isinstance(ms, int))
    yield from intake.begin(wall, config=config, rest=rest, **facts)
    for key, value, timestamp, step, is_nan in rows(_METRICS):
        place = at_step(step, key)
        number = nan if is_nan else value
        if isinstance(number, float) and abs(number) == largest != inf:
            number = copysign(inf, number)
            ledger.changed(CLAMPED, place, value, number)
        wall = timestamp / 1000 if isinstance(timestamp, int) else timestamp
        yield from intake.values(wall, step, {str(key): number}, place)
    # Databases of older versions have no datasets.
    if {("inputs",), ("datasets",)} <= set(queried(database, _NAMES, "table", ledger)):
        for (dataset,) in rows(_DATASETS):
            ledger.lose(NO_PLACE, "dataset", dataset, name="dataset")
    address = _artifacts(str(artifacts or ""), folder)
    if address:
        ledger.changed(STAYS, "artifacts", address, "a reference")
        yield from intake.record({"kind": "reference", "uri": address, "role": "artifacts"}, "artifacts")
    if status in _REASONS:
        reason = _REASONS[status]
        if isinstance(end, int) and is_wall(end / 1000):
            last = intake.timeline.last
            t = max(last, end / 1000 - (intake.timeline.start or end / 1000))
            intake.end(reason, t=t, ended_at=utc_text(end / 1000))
        else:
            intake.end(reason)


def _artifacts(place: str, folder: str) -> str:
    """Return the address of the *place* of artifacts, a local one from *folder* on; none if no file is there."""
    if _REMOTE.match(place):
        return without_secrets(place)
    path = place
    if place.startswith("file:"):
        path = os.fsdecode(unquote_to_bytes(place.removeprefix("file:").removeprefix("//")))
    local = os.path.abspath(os.path.join(folder, path))
    return Path(local).as_uri() if place and _has_files(local) else ""


def _has_files(folder: str) -> bool:
    return any(files for _, _, files in os.walk(folder))


def _take_tag(key: str, value: str, facts: dict[str, Any], rest: dict[str, str], ledger: Ledger) -> None:
    if key in _NAMED_TAGS:
        facts[_NAMED_TAGS[key]] = value
    elif key == _COMMIT:
        facts["git"] = {"sha": value}
    elif key.startswith("mlflow."):
        rest[key] = value
    else:
        facts["tags"].append(f"{key}={value}" if value else key)
        if value:
            ledger.items += 1
            ledger.changed(TAG, f"tag {key}", value, facts["tags"][-1])
            ledger.done()


def _file_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs of the file store in the directory *path* or below."""
    if not os.path.isdir(path):
        return
    for directory, (meta,) in files_below(path, lambda name: name == _META):
        known = read_meta(meta)
        if "run_id" not in known or known.get("lifecycle_stage") == "deleted":
            continue
        files = sorted(os.path.join(place, name) for place, _, names in os.walk(directory) for name in names)
        own = [file for file in files if not file.startswith(os.path.join(directory, "artifacts"))]
        name, read = known.get("run_name") or known["run_id"], partial(_of_files, directory, known)
        yield ForeignRun.of(name, directory, own, read, parts=[directory])


def _of_files(directory: str, known: dict[str, str], intake: Intake) -> Iterator[bytes]:
    # An unnamed database is on the disk when it is large, and is deleted when it is closed.
    with closing(sqlite3.connect("")) as database:
        _fill(database, directory, known, intake.ledger)
        for other in _OTHERS:
            drop_files(directory, os.path.join(directory, other), intake.ledger)
        # Files have infinity as `inf`: the largest number is a number.
        yield from _records(database, known["run_id"], intake, largest=inf, folder=directory)


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
    for table in _FILE_TABLES:
        database.execute(table)
    run_id, experiment = known["run_id"], os.path.join(os.path.dirname(directory), _META)
    group = read_meta(experiment).get("name") if os.path.isfile(experiment) else None
    times = [digits_of(known.get(key, "")) for key in ("start_time", "end_time")]
    # A store that was copied has its artifacts beside the metrics, whatever the address says.
    own = os.path.join(directory, "artifacts")
    artifacts = Path(own).absolute().as_uri() if _has_files(own) else known.get("artifact_uri")
    row = (run_id, known.get("run_name"), _STATUS.get(known.get("status", "")), *times, artifacts, 1)
    database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    database.execute("INSERT INTO experiments VALUES (1, ?)", (group,))
    for table in ("params", "tags"):
        for key, file in _keys(os.path.join(directory, table), ledger):
            database.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (key, _text(file), run_id))  # noqa: S608
    for key, file in _keys(os.path.join(directory, "metrics"), ledger):
        database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", _metrics(key, file, run_id, ledger))
        ledger.advance(os.path.getsize(file))


def _keys(directory: str, ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Yield the name of each key, its path below *directory*, and its file."""
    for place, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            raw = os.path.relpath(path, directory).replace(os.sep, "/")
            key = os.fsencode(raw).decode("utf-8", "backslashreplace")
            if key != raw:
                ledger.items += 1
                ledger.changed(NOT_UTF8, f"name of a file in {os.path.basename(directory)}", raw, key)
                ledger.done()
            yield key, path


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
        timestamp, value = int(words[0]), number_in(words[1])
        step = int(words[2]) if len(words) > 2 else 0
    except (ValueError, IndexError):
        return None
    limit = 1 << 63
    value = float(value) if abs(value) >= limit else value
    return (value, timestamp, step) if -limit <= timestamp < limit and -limit <= step < limit else None
