"""Trackio: its databases and the fragments of its JSON Lines mode; written through its storage."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import datetime
from functools import partial
from heapq import merge
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.databases import DATABASE_ERRORS, databases_with, files_of, opened, queried, runs_of, tables_of
from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import alert_event, earliest
from toyspec.convert.reports import DAMAGED, NO_PLACE, PART_DROPPED, REPEATED, Ledger, at_step
from toyspec.convert.shown_tables import table_of
from toyspec.convert.sources import MISSING_FILE, file_below, files_below, head_of, json_of
from toyspec.core.files import open_file
from toyspec.core.format.flattening import flattened
from toyspec.core.writing.media import File, Histogram
from toyspec.logs.mapping import not_finite

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from toyspec.convert.intake import Intake

    Rows = Callable[[Ledger], Iterator[tuple[Any, ...]]]
    """Yields kind, time, step and content of each row of a run, config first."""

_FLUSH_NOTE = "the times are those of Trackio's flushes: rows between two flushes have the same one"
TABLE, HISTOGRAM, TRACE = "trackio.table", "trackio.histogram", "trackio.trace"
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
_RUNS = (
    "SELECT run_id, run_name FROM (SELECT run_id, run_name, id FROM metrics UNION ALL "
    "SELECT run_id, run_name, id FROM configs) GROUP BY run_id ORDER BY min(id)"
)
_MARKDOWN = "trackio.markdown"
# Images, tables and the like are objects with this key.
_MEDIA = "_type"


def _fragments(path: str) -> list[str]:
    found = files_below(path, lambda name: name.endswith(".jsonl") and name[:-6].isdecimal())
    # One whose records cannot be read is a fragment by those beside it.
    writers = [files for _, files in found if any(_FRAGMENT in head_of(file) for file in files)]
    return [file for files in writers for file in files]


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs in the databases and the fragments at *path*."""
    runs, refused = runs_of(databases_with(_TABLES, path), _RUNS)
    in_fragments = _fragments_of(_fragments(path) if os.path.isdir(path) else [])
    for database, run_id, name in runs:
        # A run that was resumed goes on in fragments until Trackio takes them into its database.
        own = in_fragments.pop(run_id, ("", []))[1]
        files = (*files_of(database), *own)
        read = partial(_records, partial(_all_rows, database, own, run_id), str(name), _home_of(database))
        yield ForeignRun.of(str(name), f"{database}#{run_id}", files, read, run_id)
    for run_id, (name, own) in in_fragments.items():
        read = partial(_records, partial(_fragment_rows, own, run_id), name, _home_of(own[0]))
        yield ForeignRun.of(name, f"{path}#{run_id}", own, read, run_id)
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


def _rows(path: str, run_id: str, ledger: Ledger) -> Iterator[tuple[Any, ...]]:
    """Yield kind, time, step and content of each row of a run, config first."""
    with closing(opened(path)) as database:
        tables = tables_of(path)
        rows = partial(queried, database, run_id=run_id, ledger=ledger)
        yield from rows(_CONFIG)
        # Alerts and traces are among the rows, by their times.
        yield from merge(*(rows(query) for table, query in _QUERIES.items() if table in tables), key=_time_of)
        if "spans" in _columns(database, "traces"):
            yield from rows(_SPANS)
        if "run_artifact_links" in tables:
            yield from rows(_ARTIFACTS)
        if "external_run_artifact_links" in tables:
            yield from rows(_EXTERNAL_ARTIFACTS)


def _time_of(row: tuple[Any, ...]) -> str:
    return str(row[1])


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    try:
        return {str(name) for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    except DATABASE_ERRORS:
        # The rows say what is wrong.
        return set()


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


def _all_rows(path: str, fragments: list[str], run_id: str, ledger: Ledger) -> Iterator[tuple[Any, ...]]:
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
) -> Iterator[tuple[Any, ...]]:
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
                    kind = str(value.get("kind"))
                    # What else a database has is in tables of its own.
                    kind = "unknown" if kind in _MAKERS else kind
                    yield kind, value.get("timestamp"), value.get("step"), content


def _records(rows: Rows, name: str, home: str, intake: Intake) -> Iterator[bytes]:
    return _Import(os.path.join(home, "media"), intake).lines(rows, name)


class _Import:
    """Hands the rows of one run to an intake."""

    def __init__(self, media: str, intake: Intake) -> None:
        """Look for files in the folder *media*, never outside of it."""
        self._media = media
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
        elif kind == "spans":
            for span in value if isinstance(value, list) else []:
                ledger.lose(NO_PLACE, at_step(step, kind), span, name="spans")
        elif kind in _MAKERS and isinstance(value, list):
            made = _MAKERS[kind](*value)
            if "kind" not in made:
                ledger.lose(DAMAGED, place, content)
                return
            if left := made.pop("left", None):
                ledger.changed(PART_DROPPED, place, left)
            # The link to an artifact may be older than the last row.
            at = {} if kind == "artifact" else self._intake.at(wall, step, place)
            yield from self._intake.record({**made, **at}, at_step(step, kind))
        elif kind in ("metric", "system_metric") and isinstance(value, dict):
            yield from self._values(wall, step, value, "scalars" if kind == "metric" else "system")
        else:
            ledger.lose(DAMAGED, place, content)

    def _values(self, wall: Any, step: Any, values: dict[str, Any], kind: str) -> Iterator[bytes]:
        intake, place = self._intake, at_step(step)
        hidden: list[tuple[str, Any]] = []
        found = flattened(values, whole=_MEDIA, hidden=hidden)
        for name, value in hidden:
            self._ledger.lose(REPEATED, f"{place}: {name}", value, name=name)
        samples: list[dict[str, Any]] = []
        raw: dict[str, Any] = {}
        for name, value in found.items():
            several = value if isinstance(value, list) else [value]
            if several and all(isinstance(each, dict) and _MEDIA in each for each in several):
                shown = [self._shown(each, name, f"{place}: {name}") for each in several]
                samples += [each for each in shown if isinstance(each, dict)]
                media = [each for each in shown if each is not None and not isinstance(each, dict)]
                if media:
                    raw[name] = media[0] if len(media) == 1 else media
            else:
                raw[name] = _number(value)
        yield from intake.values(wall, step, raw, place, kind=kind)
        for sample in samples:
            yield from intake.record({**sample, **intake.at(wall, step, place)}, place)

    def _shown(self, value: dict[str, Any], name: str, place: str) -> Any:
        """Return the media or text that an object is, or a trace as members of a sample; None if it is dropped."""
        kind, content, caption = value[_MEDIA], value.get("_value"), value.get("caption")
        if kind == HISTOGRAM and isinstance(value.get("bins"), list) and isinstance(value.get("values"), list):
            return Histogram(edges=value["bins"], counts=value["values"])
        if kind == TABLE and isinstance(content, list) and all(isinstance(row, dict) for row in content):
            columns = list(dict.fromkeys(key for row in content for key in row))
            return table_of(columns, [[row.get(key) for key in columns] for row in content])
        if kind == _MARKDOWN and isinstance(content, str):
            return content
        if kind == TRACE and (sample := _sample(name, value.get("messages"))):
            if value.get("metadata"):
                self._ledger.changed(PART_DROPPED, place, value["metadata"])
            return sample
        if "file_path" not in value:
            self._ledger.lose(NO_PLACE, place, value, name=name)
        elif (path := file_below(self._media, value["file_path"])) is None:
            self._ledger.lose(MISSING_FILE, place, value["file_path"], name=name)
        else:
            return File(path, caption=caption if isinstance(caption, str) and caption else None)
        return None


def _number(value: Any) -> Any:
    """Return *value*; the number for a text with which Trackio writes one that is not finite."""
    found = not_finite(value) if isinstance(value, str) else None
    return value if found is None else found


def _sample(name: str, messages: Any) -> dict[str, Any]:
    """Return the members of a sample; none for messages of another form."""
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return {}
    said = [{"role": str(each.get("role") or "unknown"), "content": _text(each.get("content"))} for each in messages]
    prompts = [each["content"] for each in said if each["role"] == "user"]
    answers = [each["content"] for each in said if each["role"] == "assistant"]
    ends = {"prompt": prompts[-1] if prompts else "", "text": answers[-1] if answers else ""}
    return {"kind": "sample", **ends, "messages": said, **({"group": name} if name else {})}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _trace(name: Any, messages: Any, metadata: Any) -> dict[str, Any]:
    return {**_sample(str(name or ""), json_of(messages)), "left": json_of(metadata)}


def _alert(title: Any, said: Any, level: Any) -> dict[str, Any]:
    return alert_event(str(title), str(said) if said else "", str(level))


def _artifact(name: Any, version: Any, kind: Any, direction: Any, size: Any) -> dict[str, Any]:
    role = "input" if direction == "input" else str(kind or "artifact")
    sized = {"size_bytes": size} if type(size) is int and size >= 0 else {}
    uri = f"trackio-artifact:{name}:v{version}"
    return {"kind": "reference", "uri": uri, "role": role, **sized, "left": f"the files of artifact {name}"}


_MAKERS: dict[str, Callable[..., dict[str, Any]]] = {"alert": _alert, "trace": _trace, "artifact": _artifact}


def _wall(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
