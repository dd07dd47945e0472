"""Makes events of the records of a munin run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toyspec.convert.losses import NO_PLACE, NOT_FINITE, STEP_UNUSABLE, SUPERSEDED, Cause
from toyspec.convert.measures import as_measure, is_number
from toyspec.convert.munin_export import GOALS, STATUSES
from toyspec.convert.native_profiles import records
from toyspec.convert.timeline import Timeline, is_wall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger
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
        self._timeline: Timeline
        self._last_step: int | None = None
        self._held: dict[str, Any] | None = None
        # A run that went on after its end has one run_end, the last.
        self._end: tuple[dict[str, Any], str] | None = None

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield ``run_start`` and the events of the log at *path*, if it is there."""
        started = self._manifest.get("started_at")
        self._timeline = Timeline(self._ledger, started if is_wall(started) else None)
        yield self._start()
        if os.path.isfile(path):
            for record in records(path, None, self._ledger, dialect="munin"):
                yield from self._event(record)
        yield from self._flushed()
        if self._end is not None:
            value, place = self._end
            yield {"kind": "run_end", "t": self._t(value.get("ended_at"), place), "reason": _REASONS[value["status"]]}
            self._ledger.done()

    def _start(self) -> dict[str, Any]:
        ledger, said = self._ledger, self._manifest
        start: dict[str, Any] = {"kind": "run_start", "t": 0.0}
        if self._timeline.started_at is not None:
            start["started_at"] = self._timeline.started_at
        params = said.get("params")
        if isinstance(params, dict) and params:
            ledger.items += len(params)
            for key, value in params.items():
                if value is None:
                    ledger.changed(PARAMETERS, f"params/{key}", "null", "null")
                ledger.done()
            start["config"] = params
        provenance = said.get("provenance")
        members = {key: value for key, value in said.items() if key not in (*_FRAMING, "params", "provenance")}
        if "group" not in members and isinstance(said.get("experiment"), str):
            members["group"] = members.pop("experiment")
        members |= provenance if isinstance(provenance, dict) else {}
        for key, value in members.items():
            ledger.items += 1
            if _take(start, key, value):
                ledger.done()
            else:
                ledger.drop(NO_PLACE, f"run.json: {key}", value)
        return start

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
        made = self._other(kind, value, place)
        if made is None:
            known = kind in ("media", "artifact_output", "artifact_input", "resumed")
            self._ledger.drop(NO_PLACE if known else self._unknown, place, value)
            return
        self._ledger.done()
        yield made

    def _metric(self, value: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
        number, step, name = value.get("value"), value.get("step"), value["key"]
        if not (number is None or is_number(number)):
            self._ledger.drop(self._unknown, place, value)
            return
        if number is None:
            self._ledger.changed(NOT_FINITE, f"{place}: {name}", "null", "null")
        t = self._t(value.get("timestamp"), place)
        if not (type(step) is int and step >= 0):
            self._ledger.changed(STEP_UNUSABLE, place, step)
            step = None
        self._last_step = step if step is not None else self._last_step
        held = self._held
        if held is None or (held["t"], held.get("step")) != (t, step) or name in held["values"]:
            yield from self._flushed()
            held = self._held = {"kind": "scalars", "t": t, **({} if step is None else {"step": step}), "values": {}}
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

    def _t(self, wall: Any, place: str) -> float:
        return self._timeline.t(wall if is_number(wall) else None, place)

    def _other(self, kind: Any, value: dict[str, Any], place: str) -> dict[str, Any] | None:
        t = self._timeline.last
        if kind == "define_metric" and isinstance(value.get("key"), str):
            made = {"kind": "define", "t": t, "name": value["key"], "goal": _GOALS.get(str(value.get("goal")), "none")}
            step_name = value.get("step_metric")
            return made | ({"step_name": step_name} if isinstance(step_name, str) else {})
        if kind in ("notes", "tags", "summary"):
            import json

            said = value.get("value", value.get("values"))
            return {"kind": "note", "t": t, "text": said if isinstance(said, str) else f"{kind}: {json.dumps(said)}"}
        if kind == "resumed":
            self._supersede_end()
        if kind == "resumed" and self._last_step is not None:
            return {"kind": "run_resume", "t": self._t(value.get("at"), place), "from_step": self._last_step}
        return None


def _take(start: dict[str, Any], key: str, value: Any) -> bool:
    """Put a member of the manifest into *start*; return False if it has no place there."""
    if key in ("name", "group", "notes") and isinstance(value, str):
        start[key] = value
    elif key in ("tags", "command") and isinstance(value, list) and all(isinstance(each, str) for each in value):
        start["argv" if key == "command" else key] = value
    elif key == "hostname" and isinstance(value, str):
        start["host"] = {"name": value}
    elif key == "git_commit" and isinstance(value, str):
        start["git"] = {**start.get("git", {}), "sha": value}
    elif key == "git_dirty" and isinstance(value, bool):
        start["git"] = {**start.get("git", {}), "dirty": value}
    else:
        return False
    return True
