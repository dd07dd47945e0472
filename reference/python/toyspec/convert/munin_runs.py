"""Runs of munin, version 2 of its schema."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest, is_wall
from toyspec.convert.own_formats import records
from toyspec.convert.reports import PART_DROPPED, Cause, Ledger, is_number, step_of
from toyspec.convert.shown_tables import table_of_file
from toyspec.convert.sources import MISSING_FILE, file_below, files_at, files_below, object_in
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE
from toyspec.core.writing.media import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake
    from toyspec.core.reading.records import Record

UNKNOWN = Cause("unknown", "dropped", "the event or its members are not those of munin")

_SCHEMA_VERSION = 2
_SCHEME = "munin:"
_REASONS = {"finished": "completed", "failed": "errored", "killed": "interrupted"}
_GOALS = {"minimize": "min", "maximize": "max"}
_FRAMING = frozenset(["schema_version", "id", "started_at", "params", "provenance"])


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Yield the runs in the directory *path* and below, or that of a file of one."""
    if os.path.basename(path) in (EVENTS_FILE, MANIFEST_FILE) and not os.path.isdir(path):
        path = os.path.dirname(path) or os.curdir
    for file in files_at(path, lambda name: name == MANIFEST_FILE) if os.path.isdir(path) else ():
        directory, manifest = os.path.dirname(file), object_in(file) or {}
        if manifest.get("schema_version") == _SCHEMA_VERSION and "experiment" in manifest:
            files = [file, *filter(os.path.isfile, [os.path.join(directory, EVENTS_FILE)])]
            name = str(manifest.get("name") or os.path.basename(os.path.abspath(directory)))
            yield ForeignRun.of(name, directory, files, partial(_records, directory, manifest), parts=[directory])


def _records(directory: str, manifest: dict[str, Any], intake: Intake) -> Iterator[bytes]:
    return _Import(os.path.abspath(directory), intake).lines(manifest)


class _Import:
    """Hands the records of one run to an intake."""

    def __init__(self, directory: str, intake: Intake) -> None:
        self._directory = directory
        self._intake = intake
        self._ledger = intake.ledger
        self._last_step: int | None = None
        self._held: dict[str, float | None] = {}
        """Metrics of one step and time."""
        self._at: tuple[Any, Any, str] = (None, None, "")

    def lines(self, manifest: dict[str, Any]) -> Iterator[bytes]:
        """Yield the lines of the run, whose log may be missing."""
        path = os.path.join(self._directory, EVENTS_FILE)
        path = path if os.path.isfile(path) else ""
        facts, rest = _facts_of(manifest)
        began = earliest(_walls(manifest, path))
        yield from self._intake.begin(began, config=_object(manifest, "params"), rest=rest, **facts)
        for record in records(path, None, self._ledger, dialect="munin") if path else ():
            yield from self._event(record)
        yield from self._flushed()

    def _event(self, record: Record) -> Iterator[bytes]:
        value, place = record.value, f"line {record.line}"
        kind, number = value.get("type"), value.get("value")
        if kind == "metric" and isinstance(value.get("key"), str) and (number is None or is_number(number)):
            at = (value.get("timestamp"), value.get("step"), place)
            if at[:2] != self._at[:2] or value["key"] in self._held:
                yield from self._flushed()
            self._at = at
            self._held[value["key"]] = number
            return
        yield from self._flushed()
        if kind == "finished" and value.get("status") in _REASONS:
            self._intake.end(_REASONS[value["status"]], value.get("ended_at"))
        elif kind == "media":
            yield from self._media(value, place)
        elif kind in ("artifact_output", "artifact_input") and isinstance(value.get("name"), str):
            yield from self._artifact(value, place)
        elif kind == "resumed" and self._last_step is not None:
            t = self._intake.timeline.t(value.get("at"), place)
            yield from self._intake.resume({"t": t, "from_step": self._last_step}, place)
        elif (made := self._other(kind, value, place)) is not None:
            yield from self._intake.record(made, place)
        else:
            self._ledger.lose(UNKNOWN, place, value, name=str(kind))

    def _flushed(self) -> Iterator[bytes]:
        held, self._held = self._held, {}
        if held:
            wall, step, place = self._at
            found = step_of(step)
            self._last_step = self._last_step if found is None else found
            yield from self._intake.values(wall, step, held, place)

    def _media(self, value: dict[str, Any], place: str) -> Iterator[bytes]:
        path, name = file_below(self._directory, value.get("path")), str(value.get("key"))
        if path is None:
            self._ledger.lose(MISSING_FILE, place, value, name=name)
            return
        content = table_of_file(path, "rows") if value.get("kind") == "table" else File(path)
        at = self._intake.at(value.get("ts"), value.get("step"), place)
        yield from self._intake.media(at, name, [(content, {})], place)

    def _artifact(self, value: dict[str, Any], place: str) -> Iterator[bytes]:
        """Yield the files of what the run produced, or a reference to what it used, or whose files are elsewhere."""
        name, version, is_input = value["name"], str(value.get("version")), value["type"] == "artifact_input"
        # The root is above ``experiments/EXPERIMENT/runs``.
        root = os.path.abspath(os.path.join(self._directory, *[os.pardir] * 4))
        manifest = file_below(os.path.join(root, "artifacts"), f"{name}/versions/{version}/manifest.json")
        found = (object_in(manifest) if manifest else None) or {}
        kind = str(found.get("kind")) if found else "artifact"
        files = [] if is_input else list(_files(root, found.get("path"), name))
        for path, below in files:
            yield from self._intake.artifact(path, below, place, role=kind)
        if files:
            return
        role = "input" if is_input else kind
        made: dict[str, Any] = {"kind": "reference", "uri": f"{_SCHEME}{name}:{version}", "role": role}
        digest, size = found.get("digest"), found.get("size_bytes")
        made |= {"size_bytes": size} if type(size) is int and size >= 0 else {}
        made |= {"sha256": digest} if isinstance(digest, str) and found.get("payload") == "file" else {}
        if not is_input:
            self._ledger.changed(PART_DROPPED, place, "its files are not in the root of munin")
        yield from self._intake.record(made, place)

    def _other(self, kind: Any, value: dict[str, Any], place: str) -> dict[str, Any] | None:
        if kind == "define_metric" and isinstance(value.get("key"), str):
            return self._definition(value, place)
        if kind in ("notes", "tags", "summary"):
            said = value.get("value", value.get("values"))
            text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
            return {"kind": "note", "topic": kind, "text": "" if said is None and kind == "notes" else text}
        return None

    def _definition(self, value: dict[str, Any], place: str) -> dict[str, Any]:
        summary, goal = value.get("summary"), _GOALS.get(str(value.get("goal")))
        goal = goal or (summary if summary in ("min", "max") else None)
        if summary not in (None, "last", goal):
            self._ledger.changed(PART_DROPPED, place, f"the summary {summary}")
        made = {"kind": "define", "name": value["key"], "goal": goal or "none"}
        step_name = value.get("step_metric")
        return made | ({"step_name": step_name} if isinstance(step_name, str) else {})


def _walls(manifest: dict[str, Any], path: str) -> Iterator[Any]:
    """Yield the start that the manifest has; without one, the times of the log at *path*."""
    if is_wall(manifest.get("started_at")):
        yield manifest["started_at"]
    elif path:
        for record in records(path, None, Ledger(), dialect="munin"):
            yield record.value.get("timestamp", record.value.get("ts"))


def _object(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _facts_of(manifest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members of a ``run_start`` that the manifest has, and its other members."""
    said = {key: value for key, value in manifest.items() if key not in _FRAMING or key == "params"}
    if isinstance(said.get("params"), dict):
        del said["params"]
    if "group" not in said and isinstance(said.get("experiment"), str):
        said["group"] = said.pop("experiment")
    facts: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in (said | _object(manifest, "provenance")).items():
        if key in ("name", "group", "notes") and isinstance(value, str):
            facts[key] = value
        elif key in ("tags", "command") and isinstance(value, list) and all(isinstance(each, str) for each in value):
            facts["argv" if key == "command" else key] = value
        elif key == "parent_id" and isinstance(value, str) and value:
            facts["parent"] = {"run_id": value}
        elif key == "hostname" and isinstance(value, str):
            facts["host"] = {"name": value}
        elif key in ("git_commit", "git_dirty") and isinstance(value, str if key == "git_commit" else bool):
            facts["git"] = {**facts.get("git", {}), "sha" if key == "git_commit" else "dirty": value}
        else:
            rest[key] = value
    return facts, rest


def _files(root: str, relative: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield each file of an artifact, and its path in the bundle's folder of artifacts."""
    file = file_below(root, relative)
    if file is not None:
        yield file, name
        return
    folder = os.path.realpath(os.path.join(root, str(relative)))
    if isinstance(relative, str) and os.path.isdir(folder) and folder.startswith(os.path.realpath(root) + os.sep):
        for _, files in files_below(folder, bool):
            for each in files:
                yield each, f"{name}/{os.path.relpath(each, folder).replace(os.sep, '/')}"
