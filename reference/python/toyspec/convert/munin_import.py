"""Makes events of the records of a munin run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.incoming_files import MISSING_FILE, IncomingArtifact, IncomingMedia, file_below
from toyspec.convert.losses import (
    NOT_FINITE,
    PART_DROPPED,
    SUPERSEDED,
    Cause,
    Ledger,
    as_measure,
    is_number,
    step_member,
)
from toyspec.convert.munin_artifacts import SCHEME, artifact_of
from toyspec.convert.munin_export import GOALS, PROVENANCE_TOPIC, STATUSES
from toyspec.convert.native_profiles import records
from toyspec.convert.shown_tables import table_of_file
from toyspec.convert.timeline import Timeline, earliest, is_wall
from toyspec.writing.media import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.reading.records import Record

PARAMETERS = Cause("null-setting", "changed", "a setting that was not finite is null")

_REASONS = {"finished": "completed", "failed": "errored", "killed": "interrupted"}
_GOALS = {theirs: ours for ours, theirs in GOALS.items()}
_FRAMING = frozenset(["schema_version", "id", "started_at"])
assert set(STATUSES.values()) == set(_REASONS)


class MuninImport:
    """Reads one run."""

    def __init__(self, manifest: dict[str, Any], ledger: Ledger, unknown: Cause) -> None:
        self._manifest = manifest
        self._ledger = ledger
        self._unknown = unknown
        self._directory = ""
        self._said: dict[str, Any] = {}
        self._timeline: Timeline
        self._last_step: int | None = None
        self._held: dict[str, Any] | None = None
        # A run that went on after its end has one run_end, the last.
        self._end: tuple[dict[str, Any], str] | None = None

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield ``run_start`` and the events of the log at *path*, if it is there."""
        self._timeline = Timeline(self._ledger, earliest(self._walls(path)))
        self._directory = os.path.dirname(os.path.abspath(path))
        yield from self._start()
        if os.path.isfile(path):
            for record in records(path, None, self._ledger, dialect="munin"):
                yield from self._event(record)
        yield from self._flushed()
        if self._end is not None:
            value, place = self._end
            yield {
                "kind": "run_end",
                "t": self._timeline.t(value.get("ended_at"), place),
                "reason": _REASONS[value["status"]],
            }
            self._ledger.done()

    def _walls(self, path: str) -> Iterator[Any]:
        """Yield the start that the manifest has; without one, the times of the log."""
        if is_wall(self._manifest.get("started_at")):
            yield self._manifest["started_at"]
        elif os.path.isfile(path):
            for record in records(path, None, Ledger(), dialect="munin"):
                yield record.value.get("timestamp", record.value.get("ts"))

    def _start(self) -> Iterator[dict[str, Any]]:
        """Yield ``run_start``, and a note with those members of the manifest that it has no place for."""
        ledger, said = self._ledger, self._manifest
        start = self._timeline.run_start()
        params = said.get("params")
        if isinstance(params, dict) and params:
            ledger.items += len(params)
            for key, value in params.items():
                if value is None:
                    ledger.changed(PARAMETERS, f"params/{key}", "null", "null")
                ledger.done()
            start["config"] = params
        provenance = said.get("provenance")
        members = {key: value for key, value in said.items() if key not in _FRAMING}
        if "group" not in members and isinstance(said.get("experiment"), str):
            members["group"] = members.pop("experiment")
        if isinstance(params, dict):
            del members["params"]
        if isinstance(provenance, dict):
            members |= members.pop("provenance")
        rest: dict[str, Any] = {}
        for key, value in members.items():
            ledger.carry()
            if not _take(start, key, value):
                rest[key] = value
        yield start
        if rest:
            text = msgspec.json.encode(rest).decode()
            yield {"kind": "note", "t": 0.0, "topic": PROVENANCE_TOPIC, "text": text}

    def _event(self, record: Record) -> Iterator[dict[str, Any]]:
        value, place = record.value, f"line {record.line}"
        self._ledger.items += 1
        kind = value.get("type")
        if kind == "metric" and isinstance(value.get("key"), str):
            yield from self._metric(value, place)
            return
        yield from self._flushed()
        if kind == "finished" and value.get("status") in _REASONS:
            self._supersede_end()
            self._end = (value, place)
            return
        if kind == "media":
            yield from self._media(value, place)
        elif kind in ("artifact_output", "artifact_input") and isinstance(value.get("name"), str):
            yield from self._artifact(value, place)
        elif (made := self._other(kind, value, place)) is not None:
            self._ledger.done()
            yield made
        else:
            self._ledger.drop(self._unknown, place, value)

    def _media(self, value: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
        step, path = value.get("step"), file_below(self._directory, value.get("path"))
        if path is None:
            self._ledger.drop(MISSING_FILE, place, value)
            return
        made = {"kind": "media", "t": self._timeline.t(value.get("ts"), place), "name": str(value.get("key"))}
        made |= step_member(step, place, self._ledger)
        content = table_of_file(path, "rows") if value.get("kind") == "table" else File(path)
        yield {**made, "file": IncomingMedia(content, place)}

    def _artifact(self, value: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
        """Yield the files of what the run produced, or a reference to what it used, or whose files are elsewhere."""
        name, version = value["name"], str(value.get("version"))
        found = artifact_of(self._directory, name, version)
        t = self._timeline.last
        if found is not None and found.files and value["type"] == "artifact_output":
            self._ledger.items += len(found.files) - 1
            for path, below in found.files:
                yield {"kind": "artifact", "t": t, "role": found.kind, "file": IncomingArtifact(path, below, place)}
            return
        role = "input" if value["type"] == "artifact_input" else (found.kind if found else "artifact")
        made: dict[str, Any] = {"kind": "reference", "t": t, "uri": f"{SCHEME}{name}:{version}", "role": role}
        made |= {} if found is None or found.size is None else {"size_bytes": found.size}
        made |= {} if found is None or found.digest is None else {"sha256": found.digest}
        if role != "input":
            self._ledger.changed(PART_DROPPED, place, "its files are not in the root of munin")
        self._ledger.done()
        yield made

    def _metric(self, value: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
        number, name = value.get("value"), value["key"]
        if not (number is None or is_number(number)):
            self._ledger.drop(self._unknown, place, value)
            return
        if number is None:
            self._ledger.changed(NOT_FINITE, f"{place}: {name}", "null", "null")
        t = self._timeline.t(value.get("timestamp"), place)
        at = step_member(value.get("step"), place, self._ledger)
        self._last_step = at.get("step", self._last_step)
        held = self._held
        if held is None or (held["t"], held.get("step")) != (t, at.get("step")) or name in held["values"]:
            yield from self._flushed()
            held = self._held = {"kind": "scalars", "t": t, **at, "values": {}}
        held["values"][name] = None if number is None else as_measure(number, f"{place}: {name}", self._ledger)
        self._ledger.done()

    def _supersede_end(self) -> None:
        if self._end is not None:
            value, place = self._end
            self._end = None
            self._ledger.drop(SUPERSEDED, place, value)

    def _flushed(self) -> Iterator[dict[str, Any]]:
        held, self._held = self._held, None
        if held is not None:
            yield held

    def _other(self, kind: Any, value: dict[str, Any], place: str) -> dict[str, Any] | None:
        t = self._timeline.last
        if kind == "define_metric" and isinstance(value.get("key"), str):
            return self._definition(value, place)
        if kind in ("notes", "tags", "summary"):
            said = value.get("value", value.get("values"))
            text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
            text = "" if said is None and kind == "notes" else text
            return {"kind": "note", "t": t, "topic": kind, "text": text}
        if kind == "resumed":
            self._supersede_end()
        if kind == "resumed" and self._last_step is not None:
            return {"kind": "run_resume", "t": self._timeline.t(value.get("at"), place), "from_step": self._last_step}
        return None

    def _definition(self, value: dict[str, Any], place: str) -> dict[str, Any]:
        summary, goal = value.get("summary"), _GOALS.get(str(value.get("goal")))
        goal = goal or (summary if summary in ("min", "max") else None)
        if summary not in (None, "last", goal):
            self._ledger.changed(PART_DROPPED, place, f"the summary {summary}")
        made = {"kind": "define", "t": self._timeline.last, "name": value["key"], "goal": goal or "none"}
        step_name = value.get("step_metric")
        return made | ({"step_name": step_name} if isinstance(step_name, str) else {})


def _take(start: dict[str, Any], key: str, value: Any) -> bool:
    """Put a member of the manifest into *start*; return False if it has no place there."""
    if key in ("name", "group", "notes") and isinstance(value, str):
        start[key] = value
    elif key in ("tags", "command") and isinstance(value, list) and all(isinstance(each, str) for each in value):
        start["argv" if key == "command" else key] = value
    elif key == "parent_id" and isinstance(value, str) and value:
        start["parent"] = {"run_id": value}
    elif key == "hostname" and isinstance(value, str):
        start["host"] = {"name": value}
    elif key == "git_commit" and isinstance(value, str):
        start["git"] = {**start.get("git", {}), "sha": value}
    elif key == "git_dirty" and isinstance(value, bool):
        start["git"] = {**start.get("git", {}), "dirty": value}
    else:
        return False
    return True
