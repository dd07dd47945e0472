"""Trackio: its databases and the fragments of its JSON Lines mode; written through its storage."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import datetime
from functools import partial
from heapq import merge
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.databases import DATABASE_ERRORS, databases_with, files_of, opened, tables_of
from toyspec.convert.formats import ForeignRun
from toyspec.convert.losses import (
    DAMAGED,
    NO_PLACE,
    NOT_FINITE,
    REPEATED,
    Ledger,
    as_measure,
    at_step,
    is_number,
    step_member,
)
from toyspec.convert.sources import files_below, head_of, identity_of, json_of, size_of
from toyspec.convert.timeline import Timeline, earliest
from toyspec.convert.trackio_export import write_runs
from toyspec.convert.trackio_media import TrackioMedia, alert_of, reference_of, sample_of
from toyspec.errors import SourceError
from toyspec.files import open_file
from toyspec.format.flattening import flattened
from toyspec.logs.mapping import not_finite

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from toyspec.convert.exported_runs import ExportedRun

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
    "traces": (
        "SELECT 'trace', timestamp, step, json_array(key, CAST(messages AS TEXT), CAST(metadata AS TEXT)) FROM traces "
        "WHERE run_id = ? ORDER BY timestamp, id"
    ),
}
_ARTIFACTS = (
    "SELECT 'artifact', links.created_at, NULL, "
    "json_array(artifacts.name, versions.version, artifacts.type, links.direction, versions.size_bytes) "
    "FROM run_artifact_links links JOIN artifact_versions versions ON links.artifact_version_id = versions.id "
    "JOIN artifacts ON versions.artifact_id = artifacts.id WHERE links.run_id = ? ORDER BY links.id"
)
# Of a project elsewhere, with the same facts.
_EXTERNAL_ARTIFACTS = (
    "SELECT 'artifact', created_at, NULL, "
    "json_array(source_artifact, source_version, source_type, direction, source_size_bytes) "
    "FROM external_run_artifact_links WHERE run_id = ? ORDER BY id"
)
# Older databases have no such column.
_SPANS = "SELECT 'spans', timestamp, step, CAST(spans AS TEXT) FROM traces WHERE run_id = ? ORDER BY timestamp, id"
_CONFIG_FRAMING = frozenset(["_Username", "_Created"])
_FRAGMENT = b'"log_id"'
# Images, tables and the like are objects with this key.
_MEDIA = "_type"


def recognise(path: str) -> bool:
    """Return whether *path* is a database of Trackio, or a directory with such or with fragments."""
    if not os.path.isdir(path):
        return bool(databases_with(_TABLES, path))
    return bool(databases_with(_TABLES, path) or _fragments(path))


def _fragments(path: str) -> list[str]:
    found = files_below(path, lambda name: name.endswith(".jsonl") and name[:-6].isdecimal())
    # One whose records cannot be read is a fragment by those beside it.
    writers = [files for _, files in found if any(_FRAGMENT in head_of(file) for file in files)]
    return [file for files in writers for file in files]


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs in the databases and the fragments at *path*."""
    is_directory = os.path.isdir(path)
    databases = databases_with(_TABLES, path) if is_directory else [path]
    fragments = _fragments(path) if is_directory else []
    if not databases and not fragments:
        raise SourceError(path, "no database of Trackio and no fragments of its JSON Lines mode")
    runs: list[tuple[str, str, str]] = []
    refused: list[SourceError] = []
    for database in databases:
        # One that cannot be read does not stop the others.
        try:
            runs += [(run_id, name, database) for run_id, name in _runs_of(database)]
        except SourceError as error:
            refused.append(error)
    in_fragments = _fragments_of(fragments)
    for run_id, name, database in runs:
        # A run that was resumed goes on in fragments until Trackio takes them into its database.
        own = in_fragments.pop(run_id, ("", []))[1]
        files = (*files_of(database), *own)
        rows = partial(_events, partial(_all_rows, database, own, run_id), name, _home_of(database))
        source, size = f"{database}#{run_id}", size_of(files)
        yield ForeignRun(name, source, identity_of(files, run_id), size, rows, parts=files)
    for run_id, (name, own) in in_fragments.items():
        rows = partial(_events, partial(_fragment_rows, own, run_id), name, _home_of(own[0]))
        yield ForeignRun(name, f"{path}#{run_id}", identity_of(own, run_id), size_of(own), rows, parts=tuple(own))
    if refused:
        raise refused[0]


def _home_of(path: str) -> str:
    """Return the directory of Trackio in which the file *path* is: that with the folder of media, or its own."""
    folder = own = os.path.dirname(os.path.abspath(path))
    for _ in range(4):
        if os.path.isdir(os.path.join(folder, "media")):
            return folder
        folder = os.path.dirname(folder)
    return own


def _runs_of(path: str) -> list[tuple[str, str]]:
    with closing(opened(path)) as database:
        try:
            query = "SELECT run_id, run_name FROM {} GROUP BY run_id ORDER BY min(id)"
            rows = [database.execute(query.format(table)) for table in ("metrics", "configs")]
            found = {str(run): str(name) for run, name in chain(*rows)}
        except DATABASE_ERRORS as error:
            raise SourceError(path, f"the database cannot be read: {error}") from error
    return list(found.items())


def _rows(path: str, run_id: str, ledger: Ledger) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield kind, time, step and content of each row of a run, config first."""
    with closing(opened(path)) as database:
        tables = tables_of(path)
        yield from _queried(database, _CONFIG, run_id, ledger)
        # Alerts and traces are among the rows, by their times.
        queries = [_queried(database, query, run_id, ledger) for table, query in _QUERIES.items() if table in tables]
        yield from merge(*queries, key=lambda row: str(row[1]))
        if "spans" in _columns(database, "traces"):
            yield from _queried(database, _SPANS, run_id, ledger)
        if "run_artifact_links" in tables:
            yield from _queried(database, _ARTIFACTS, run_id, ledger)
        if "external_run_artifact_links" in tables:
            yield from _queried(database, _EXTERNAL_ARTIFACTS, run_id, ledger)


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    try:
        return {str(name) for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    except DATABASE_ERRORS:
        # The rows say what is wrong.
        return set()


def _queried(
    database: sqlite3.Connection, query: str, run_id: str, ledger: Ledger
) -> Iterator[tuple[str, Any, Any, Any]]:
    try:
        yield from database.execute(query, (run_id,))
    except DATABASE_ERRORS as error:
        ledger.lose(DAMAGED, "database", str(error))


def _fragments_of(files: list[str]) -> dict[str, tuple[str, list[str]]]:
    """Return name and fragments of each run: those of a process together, and the processes by their first times."""
    found: dict[str, tuple[str, dict[tuple[str, str], str]]] = {}
    begins: dict[str, str] = {}
    unread: dict[str, str] = {}
    for file in files:
        unread[file] = os.path.dirname(file)
        with open_file(file) as lines:
            for value in map(json_of, lines):
                if not isinstance(value, dict) or not isinstance(value.get("run"), str):
                    continue
                folder = os.path.dirname(file)
                begins.setdefault(folder, str(value.get("timestamp")))
                run = found.setdefault(_run_id(value), (value["run"], {}))
                run[1][begins[folder], file] = file
                unread.pop(file, None)
    for file, folder in unread.items():
        # A directory has the fragments of one process: what cannot be read is reported with its run.
        own = next((run for _, run in found.values() if folder in map(os.path.dirname, run.values())), {})
        own[begins.get(folder, ""), file] = file
    return {run_id: (name, [run[key] for key in sorted(run)]) for run_id, (name, run) in found.items()}


def _run_id(record: dict[str, Any]) -> str:
    return str(record.get("run_id") or record["run"])


def _all_rows(path: str, fragments: list[str], run_id: str, ledger: Ledger) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield the rows of a run in the database *path*, then those of *fragments* that are not in it yet."""
    yield from _rows(path, run_id, ledger)
    if not fragments:
        return
    with closing(opened(path)) as database:
        queries = [f"SELECT 1 FROM {table} WHERE log_id = ?" for table in ("metrics", "system_metrics")]  # noqa: S608

        def is_new(record: dict[str, Any]) -> bool:
            log_id = record.get("log_id")
            try:
                return not any(database.execute(query, (log_id,)).fetchone() for query in queries)
            except DATABASE_ERRORS:
                return True

        yield from _fragment_rows(fragments, run_id, ledger, is_new)


def _fragment_rows(
    files: list[str], run_id: str, ledger: Ledger, is_new: Callable[[dict[str, Any]], bool] = bool
) -> Iterator[tuple[str, Any, Any, Any]]:
    for file in files:
        with open_file(file) as lines:
            for number, line in enumerate(lines, 1):
                value = json_of(line)
                if not isinstance(value, dict):
                    ledger.lose(DAMAGED, f"{os.path.basename(file)}, line {number}", line)
                elif isinstance(value.get("run"), str) and _run_id(value) == run_id:
                    if not is_new(value):
                        ledger.lose(REPEATED, f"{os.path.basename(file)}, line {number}", value.get("log_id"))
                        continue
                    if isinstance(value.get("config"), dict):
                        yield "config", value.get("timestamp"), None, msgspec.json.encode(value["config"])
                    content = msgspec.json.encode(value.get("metrics"))
                    yield str(value.get("kind")), value.get("timestamp"), value.get("step"), content


def _events(
    rows: Callable[[Ledger], Iterator[tuple[str, Any, Any, Any]]], name: str, home: str, ledger: Ledger
) -> Iterator[dict[str, Any]]:
    return _Import(rows, name, TrackioMedia(os.path.join(home, "media"), ledger), ledger).events()


class _Import:
    """Makes events of the rows of one run."""

    def __init__(
        self,
        rows: Callable[[Ledger], Iterator[tuple[str, Any, Any, Any]]],
        name: str,
        media: TrackioMedia,
        ledger: Ledger,
    ) -> None:
        self._rows = rows
        self._media = media
        self._name = name
        self._ledger = ledger
        self._timeline: Timeline
        self._config: dict[str, Any] = {}

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield ``run_start`` and the rows in the order in which they were logged."""
        ledger = self._ledger
        scratch = Ledger()
        self._timeline = Timeline(ledger, earliest(_wall(time) for _, time, _, _ in self._rows(scratch)))
        start = self._timeline.run_start(name=self._name)
        ledger.note(_FLUSH_NOTE)
        rows = self._rows(ledger)
        held = next(rows, None)
        if held is not None and held[0] == "config":
            self._configure(start, held[3])
            held = next(rows, None)
        yield start
        while held is not None:
            yield from self._row(*held)
            held = next(rows, None)

    def _configure(self, start: dict[str, Any], content: Any) -> None:
        ledger = self._ledger
        known = self._settings(content)
        self._config = known
        kept = {key: value for key, value in known.items() if key != "_Group"}
        for key, value in kept.items():
            number = not_finite(value) if isinstance(value, str) else None
            if number is not None:
                ledger.changed(NOT_FINITE, f"config/{key}", value, "null")
                kept[key] = None
            ledger.done()
        if isinstance(known.get("_Group"), str):
            start["group"] = known["_Group"]
        if "_Group" in known:
            ledger.done()
        if kept:
            start["config"] = kept

    def _settings(self, content: Any) -> dict[str, Any]:
        """Return the settings in *content*, counted as items."""
        config = json_of(content)
        if not isinstance(config, dict):
            self._ledger.lose(DAMAGED, "config", content)
            return {}
        known = {key: value for key, value in config.items() if key not in _CONFIG_FRAMING}
        self._ledger.items += len(known)
        return known

    def _configure_again(self, content: Any) -> None:
        """Settle the settings of a process that resumed the run."""
        for key, value in self._settings(content).items():
            if self._config.get(key, self) == value:
                self._ledger.done()
            else:
                self._ledger.drop(NO_PLACE, f"config/{key}, when the run was resumed", value)

    def _row(self, kind: str, time: Any, step: Any, content: Any) -> Iterator[dict[str, Any]]:
        ledger, place = self._ledger, at_step(step)
        values = json_of(content)
        if kind == "config":
            self._configure_again(content)
            return
        if kind in _OTHERS:
            yield from self._other(kind, time, step, values)
            return
        if kind not in ("metric", "system_metric") or not isinstance(values, dict):
            ledger.lose(DAMAGED, place, content)
            return
        hidden: list[tuple[str, Any]] = []
        values = flattened(values, whole=_MEDIA, hidden=hidden)
        ledger.items += len(values) + len(hidden)
        for name_of_two, value in hidden:
            ledger.drop(REPEATED, f"{place}: {name_of_two}", value)
        record = {"kind": "scalars", **self._at(time, step, place)}
        numbers: dict[str, float | None] = {}
        texts: dict[str, str] = {}
        shown: dict[str, Any] = {}
        for name, value in values.items():
            self._value(name, value, place, (numbers, texts, shown))
        if (numbers or texts) and kind == "metric":
            yield {**record, "values": numbers, **({"texts": texts} if texts else {})}
        elif numbers:
            yield {**record, "kind": "system", "extra": numbers}
        if texts and kind != "metric":
            yield {**record, "values": {}, "texts": texts}
        for name, value in shown.items():
            yield from self._media.events(record, name, value, f"{place}: {name}")

    def _at(self, time: Any, step: Any, place: str) -> dict[str, Any]:
        """Return time and step as members of a record."""
        wall = _wall(time)
        t = self._timeline.t(time if wall is None else wall, place)
        return {"t": t, **step_member(step, place, self._ledger)}

    def _other(self, kind: str, time: Any, step: Any, content: Any) -> Iterator[dict[str, Any]]:
        """Yield an alert, a trace or an artifact; spans of a trace have no place."""
        place = at_step(step, kind)
        if kind == "spans":
            for span in content if isinstance(content, list) else []:
                self._ledger.lose(NO_PLACE, place, span)
            return
        self._ledger.items += 1
        made = _MAKERS[kind](content, place, self._ledger) if isinstance(content, list) else None
        if made is None:
            self._ledger.drop(DAMAGED, place, content)
            return
        # The link to an artifact may be older than the last row.
        at = {"t": self._timeline.last} if kind == "artifact" else self._at(time, step, place)
        self._ledger.done()
        yield {**made, **at}

    def _value(
        self, name: str, value: Any, place: str, found: tuple[dict[str, float | None], dict[str, str], dict[str, Any]]
    ) -> None:
        ledger, (numbers, texts, shown) = self._ledger, found
        spelt = not_finite(value) if isinstance(value, str) else None
        if is_number(value) or spelt is not None:
            numbers[name] = as_measure(value if spelt is None else spelt, f"{place}: {name}", ledger)
        elif value is None:
            numbers[name] = None
        elif isinstance(value, str):
            texts[name] = value
        else:
            shown[name] = value
            return
        ledger.done()


_MAKERS = {"alert": alert_of, "trace": sample_of, "artifact": reference_of}
_OTHERS = frozenset([*_MAKERS, "spans"])


def _wall(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write all of *runs* into databases, one for each group."""
    write_runs(runs, directory)
