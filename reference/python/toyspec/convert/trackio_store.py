"""Trackio: its databases and the fragments of its JSON Lines mode, read without Trackio."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import datetime
from functools import partial
from heapq import merge
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.databases import databases_with, files_of, opened, queried, runs_of, tables_of
from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import alert_event, earliest
from toyspec.convert.reports import DAMAGED, NO_PLACE, REPEATED, Ledger, at_step
from toyspec.convert.sources import files_below, head_of, json_of
from toyspec.core.files import open_file
from toyspec.core.format.flattening import flattened
from toyspec.logs.mapping import not_finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.intake import Intake

    Rows = Callable[[Ledger], Iterator[tuple[Any, ...]]]
    """Yields kind, time, step and content of each row of a run, config first."""

_FLUSH_NOTE = "the times are those of Trackio's flushes: rows between two flushes have the same one"
_TABLES = frozenset(["metrics", "configs", "project_metadata"])
_CONFIG = "SELECT 'config', created_at, NULL, config FROM configs WHERE run_id = ?"
_QUERIES = {
    "metrics": "SELECT 'metric', timestamp, step, metrics FROM metrics WHERE run_id = ? ORDER BY id",
    "system_metrics": (
        "SELECT 'system_metric', timestamp, NULL, metrics FROM system_metrics WHERE run_id = ? ORDER BY id"
    ),
    "alerts": (
        "SELECT 'alert', timestamp, step, json_array(title, text, level) FROM alerts WHERE run_id = ? ORDER BY id"
    ),
}
_FRAGMENT = b'"log_id"'
_LEFT_OUT = ("traces", "run_artifact_links", "external_run_artifact_links")
"""Tables whose rows have no place."""
_CONFIG_FRAMING = frozenset(["_Username", "_Created"])
_RUNS = (
    "SELECT run_id, run_name FROM (SELECT run_id, run_name, id FROM metrics UNION ALL "
    "SELECT run_id, run_name, id FROM configs) GROUP BY run_id ORDER BY min(id)"
)
# Images, tables, traces and the like are objects with this key.
_MEDIA = "_type"


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs in the databases at *path*, and those in each directory with fragments of the JSON Lines mode."""
    runs, refused = runs_of(databases_with(_TABLES, path), _RUNS)
    for database, run_id, name in runs:
        read = partial(_records, partial(_rows, database, run_id), str(name))
        yield ForeignRun.of(str(name), f"{database}#{run_id}", files_of(database), read, run_id)
    found = files_below(path, lambda name: name.endswith(".jsonl") and name[:-6].isdecimal())
    for directory, files in found if os.path.isdir(path) else ():
        # One whose records cannot be read is a fragment by those beside it.
        if any(_FRAGMENT in head_of(file) for file in files):
            for run_id, name in _runs_in(files).items():
                read = partial(_records, partial(_fragment_rows, files, run_id), name)
                yield ForeignRun.of(name, f"{directory}#{run_id}", files, read, run_id)
    if refused:
        raise refused[0]


def _rows(path: str, run_id: str, ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    """Yield kind, time, step and content of each row of a run, config first."""
    with closing(opened(path)) as database:
        tables = tables_of(path)
        rows = partial(queried, database, run_id=run_id, ledger=ledger)
        yield from rows(_CONFIG)
        # Alerts are among the rows, by their times.
        found = (rows(query) for table, query in _QUERIES.items() if table in tables)
        yield from merge(*found, key=lambda row: str(row[1]))
        for table in filter(tables.__contains__, _LEFT_OUT):
            yield from rows(f"SELECT 'left out', NULL, NULL, json_array('{table}') FROM {table} WHERE run_id = ?")  # noqa: S608


def _runs_in(files: list[str]) -> dict[str, str]:
    """Return the name of each run that fragments have rows of, by its id."""
    found: dict[str, str] = {}
    for file in files:
        with open_file(file) as lines:
            for value in map(json_of, lines):
                if isinstance(value, dict) and isinstance(value.get("run"), str):
                    found.setdefault(_run_id(value), value["run"])
    return found


def _run_id(record: dict[str, Any]) -> str:
    return str(record.get("run_id") or record["run"])


def _fragment_rows(files: list[str], run_id: str, ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    for file in files:
        with open_file(file) as lines:
            for number, line in enumerate(lines, 1):
                value = json_of(line)
                if not isinstance(value, dict):
                    ledger.lose(DAMAGED, f"{os.path.basename(file)}, line {number}", line)
                elif isinstance(value.get("run"), str) and _run_id(value) == run_id:
                    if isinstance(value.get("config"), dict):
                        yield "config", value.get("timestamp"), None, msgspec.json.encode(value["config"])
                    content = msgspec.json.encode(value.get("metrics"))
                    yield str(value.get("kind")), value.get("timestamp"), value.get("step"), content


def _records(rows: Rows, name: str, intake: Intake) -> Iterator[bytes]:
    return _Import(intake).lines(rows, name)


class _Import:
    """Hands the rows of one run to an intake."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._ledger = intake.ledger
        self._config: dict[str, Any] = {}

    def lines(self, rows: Rows, name: str) -> Iterator[bytes]:
        """Yield the lines of the run, in the order in which its rows were logged."""
        first = earliest(_wall(time) for _, time, _, _ in rows(Ledger()))
        self._ledger.note(_FLUSH_NOTE)
        found = rows(self._ledger)
        held = next(found, None)
        if held is not None and held[0] == "config":
            self._config = self._settings(held[3])
            held = next(found, None)
        config = {key: _number(value) for key, value in self._config.items() if key != "_Group"}
        group = self._config.get("_Group")
        group = group if isinstance(group, str) else None
        yield from self._intake.begin(first, name=name, group=group, config=config)
        while held is not None:
            yield from self._row(*held)
            held = next(found, None)

    def _settings(self, content: Any) -> dict[str, Any]:
        config = json_of(content)
        if not isinstance(config, dict):
            self._ledger.lose(DAMAGED, "config", content)
            return {}
        return {key: value for key, value in config.items() if key not in _CONFIG_FRAMING}

    def _row(self, kind: str, time: Any, step: Any, content: Any) -> Iterator[bytes]:
        ledger, place, value = self._ledger, at_step(step), json_of(content)
        wall = time if (found := _wall(time)) is None else found
        if kind == "config":
            # Of a process that resumed the run.
            for key, setting in self._settings(content).items():
                if self._config.get(key, self) != setting:
                    ledger.lose(NO_PLACE, f"config/{key}, when the run was resumed", setting, name=f"config/{key}")
        elif kind == "left out":
            ledger.lose(NO_PLACE, "database", f"a row of {value[0]}", name=value[0])
        elif kind == "alert" and isinstance(value, list):
            title, text, level = (str(part or "") for part in value)
            made = alert_event(title, text, level)
            yield from self._intake.record({**made, **self._intake.at(wall, step, place)}, at_step(step, kind))
        elif kind in ("metric", "system_metric") and isinstance(value, dict):
            yield from self._values(wall, step, value, "scalars" if kind == "metric" else "system")
        else:
            ledger.lose(DAMAGED, place, content)

    def _values(self, wall: Any, step: Any, values: dict[str, Any], kind: str) -> Iterator[bytes]:
        place = at_step(step)
        hidden: list[tuple[str, Any]] = []
        found = flattened(values, whole=_MEDIA, hidden=hidden)
        for name, value in hidden:
            self._ledger.lose(REPEATED, f"{place}: {name}", value, name=name)
        raw: dict[str, Any] = {}
        for name, value in found.items():
            shown = value if isinstance(value, list) else [value]
            if shown and all(isinstance(each, dict) and _MEDIA in each for each in shown):
                here, rows = f"{place}: {name}", value.get("_value") if isinstance(value, dict) else None
                rows = rows if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else []
                if not (yield from self._intake.samples(wall, step, name, rows, here)):
                    self._ledger.lose(NO_PLACE, here, value, name=name)
            else:
                raw[name] = _number(value)
        yield from self._intake.values(wall, step, raw, place, kind=kind)


def _number(value: Any) -> Any:
    """Return *value*; the number for a text with which Trackio writes one that is not finite, in lists too."""
    if isinstance(value, list):
        return list(map(_number, value))
    found = not_finite(value) if isinstance(value, str) else None
    return value if found is None else found


def _wall(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
