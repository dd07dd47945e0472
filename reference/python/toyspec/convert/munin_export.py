"""Writes toy/v1 runs as munin does."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.losses import NO_PLACE, NOT_FINITE, Cause
from toyspec.format.profiles import EVENTS_FILE, MANIFEST_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

NULL_UNREAD = Cause(
    "null", "changed", "null is written as munin writes NaN; munin's own reader leaves such a record out"
)
WITHOUT_STEP = Cause("without-step", "changed", "a value without a step is written at step 0")
SETTING_AS_TEXT = Cause("setting-as-text", "changed", "a list, an empty object or null is written as JSON text")
PART = Cause("part-dropped", "changed", "a part of it has no place")

STATUSES = {"completed": "finished", "errored": "failed", "interrupted": "killed", "aborted": "killed"}
"""The status of munin for each reason of a run_end."""
GOALS = {"min": "minimize", "max": "maximize"}

_EXPERIMENT = "toyspec"
_PROVENANCE = {"argv": "command", "notes": "notes"}
_SAME = ("name", "group", "tags")


def write_run(run: ExportedRun, ledger: Ledger, directory: str, schema_version: int) -> None:
    """Write *run* below the root *directory*."""
    folder = os.path.join(directory, "experiments", _EXPERIMENT, "runs", run.run_id)
    os.makedirs(folder)
    manifest: dict[str, Any] = {
        "schema_version": schema_version,
        "id": run.run_id,
        "experiment": _EXPERIMENT,
        "started_at": run.wall(0.0),
        "tags": [],
        "params": {},
        "provenance": {"command": [], "cwd": "", "pid": 0, "env": {}},
    }
    with open(os.path.join(folder, EVENTS_FILE), "wb") as file:
        for item in run.items(ledger):
            if _take(item, manifest, ledger):
                ledger.done()
                continue
            event = _event(item, run, ledger)
            if event is None:
                ledger.drop(NO_PLACE, item.place, item.value)
                continue
            file.write(msgspec.json.encode(event) + b"\n")
            ledger.done()
    with open(os.path.join(folder, MANIFEST_FILE), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def _take(item: Item, manifest: dict[str, Any], ledger: Ledger) -> bool:
    """Put *item* into the manifest; return False if it does not belong there."""
    if item.kind == "setting":
        manifest["params"][item.name] = _parameter(item, ledger)
        return True
    if item.kind != "fact":
        return False
    provenance = manifest["provenance"]
    if item.name in _SAME:
        manifest[item.name] = item.value
    elif item.name in _PROVENANCE:
        provenance[_PROVENANCE[item.name]] = item.value
    elif item.name in ("git", "host") and isinstance(item.value, dict):
        return _take_part(item, provenance, ledger)
    else:
        return False
    return True


def _take_part(item: Item, provenance: dict[str, Any], ledger: Ledger) -> bool:
    places = {"sha": "git_commit", "dirty": "git_dirty"} if item.name == "git" else {"name": "hostname"}
    kept = {places[key]: value for key, value in item.value.items() if key in places}
    provenance |= kept
    if kept and len(kept) < len(item.value):
        left = {key: value for key, value in item.value.items() if key not in places}
        ledger.changed(PART, item.place, left, "left out")
    return bool(kept)


def _parameter(item: Item, ledger: Ledger) -> Any:
    if isinstance(item.value, bool | int | float | str):
        return item.value
    text = msgspec.json.encode(item.value).decode()
    ledger.changed(SETTING_AS_TEXT, item.place, item.value, text)
    return text


def _event(item: Item, run: ExportedRun, ledger: Ledger) -> dict[str, Any] | None:
    """Return the event of *item*; None if munin has no place for it."""
    if item.kind == "measure":
        if item.step is None:
            ledger.changed(WITHOUT_STEP, item.place, "no step", 0)
        if item.value is None:
            ledger.changed(NULL_UNREAD, item.place, "null", "null")
        elif not math.isfinite(item.value):
            # munin itself writes null.
            ledger.changed(NOT_FINITE, item.place, item.value, "null")
        place = {"step": item.step or 0, "timestamp": run.wall(item.t)}
        return {"type": "metric", **place, "key": item.name, "value": item.value}
    if item.kind == "definition":
        return _definition(item, ledger)
    if item.kind == "end" and item.name == "reason":
        return {"type": "finished", "status": STATUSES.get(str(item.value), "killed"), "ended_at": run.wall(item.t)}
    return None


def _definition(item: Item, ledger: Ledger) -> dict[str, Any] | None:
    said = item.value
    name, goal = str(said.get("name")), said.get("goal")
    if name.endswith("*"):
        return None
    left = {key: said[key] for key in said.keys() - {"kind", "t", "phase", "name", "goal", "step_name"}}
    if left:
        ledger.changed(PART, item.place, left, "left out")
    event = {"type": "define_metric", "key": name, "summary": goal if goal in GOALS else "last"}
    return event | dict(_optional(("step_metric", said.get("step_name")), ("goal", GOALS.get(str(goal)))))


def _optional(*members: tuple[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((key, value) for key, value in members if value is not None)
