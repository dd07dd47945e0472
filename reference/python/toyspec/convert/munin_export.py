"""Writes toy/v1 runs as munin does."""

from __future__ import annotations

import math
import os
import shutil
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.incoming_files import MISSING_FILE
from toyspec.convert.losses import (
    NO_PLACE,
    NOT_FINITE,
    PART_DROPPED,
    WITHOUT_STEP,
    Cause,
)
from toyspec.convert.munin_artifacts import SCHEME, write_artifact
from toyspec.convert.shown_tables import rows_of
from toyspec.convert.sources import json_of
from toyspec.format.profiles import EVENTS_FILE, MANIFEST_FILE
from toyspec.format.run_files import parts_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun, Item
    from toyspec.convert.losses import Ledger

NULL_UNREAD = Cause(
    "null", "changed", "null is written as munin writes NaN; munin's own reader leaves such a record out"
)
SETTING_AS_TEXT = Cause("setting-as-text", "changed", "a list, an empty object or null is written as JSON text")

STATUSES = {"completed": "finished", "errored": "failed", "interrupted": "killed", "aborted": "killed"}
"""The status of munin for each reason of a run_end."""
PROVENANCE_TOPIC = "provenance"
"""The topic of the note that describes the machine, as the manifest did."""
GOALS = {"min": "minimize", "max": "maximize"}

_EXPERIMENT = "toyspec"
_PROVENANCE = {"argv": "command", "notes": "notes"}
_SAME = ("name", "group", "tags")
_MACHINE = ("cwd", "pid", "env")
_FILED = ("media", "artifact", "reference")


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
    files = _Files(run, ledger, directory, folder)
    with open(os.path.join(folder, EVENTS_FILE), "wb") as file:
        for item in run.items(ledger):
            if _take(item, manifest, ledger):
                ledger.done()
                continue
            event = files.event(item) if item.name in _FILED else _event(item, run, ledger)
            if event is None:
                # A file that is not there is counted already.
                if not files.is_counted(item):
                    ledger.drop(NO_PLACE, item.place, item.value)
                continue
            file.write(msgspec.json.encode(event) + b"\n")
            ledger.done()
    with open(os.path.join(folder, MANIFEST_FILE), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


class _Files:
    """Writes the files of one run: media into its folder, artifacts into the root."""

    def __init__(self, run: ExportedRun, ledger: Ledger, root: str, folder: str) -> None:
        self._run = run
        self._ledger = ledger
        self._root = root
        self._folder = folder
        self._missing: Item | None = None

    def is_counted(self, item: Item) -> bool:
        """Return whether *item* was dropped here."""
        return self._missing is item

    def event(self, item: Item) -> dict[str, Any] | None:
        """Return the event of a record with a file; None if munin has no place for it, or its file is not there."""
        value = item.value
        if item.name == "reference":
            name, _, version = str(value.get("uri")).removeprefix(SCHEME).partition(":")
            is_input = value.get("role") == "input" and str(value.get("uri")).startswith(SCHEME) and version
            return {"type": "artifact_input", "name": name, "version": version} if is_input else None
        path = self._run.file_of(value)
        if path is None:
            self._missing = item
            self._ledger.drop(MISSING_FILE, item.place, value)
            return None
        wall = self._run.wall(item.t)
        if item.name == "media":
            return self._media(item, path, wall)
        name = str(value.get("path")).removeprefix("artifacts/").replace("/", "-")
        role = str(value.get("role") or "file")
        version = write_artifact(self._root, path, name=name, role=role, producer=(self._run.run_id, wall))
        return {"type": "artifact_output", "name": name, "version": version}

    def _media(self, item: Item, path: str, wall: float) -> dict[str, Any]:
        value, step = item.value, item.step or 0
        if item.step is None:
            self._ledger.changed(WITHOUT_STEP, item.place, "no step", 0)
        left = sorted(value.keys() & {"caption", "index"})
        if left:
            self._ledger.changed(PART_DROPPED, item.place, ", ".join(left))
        key, media_type = str(value.get("name")), str(value.get("media_type"))
        table = rows_of(path) if media_type == "text/csv" else None
        ending = ".json" if table else os.path.splitext(path)[1]
        index = f"_{value['index']}" if value.get("index") else ""
        parts = parts_below(key) or ["media"]
        relative = "/".join(["media", *parts[:-1], f"{parts[-1]}_{step}{index}{ending}"])
        target = os.path.join(self._folder, *relative.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if table:
            with open(target, "wb") as file:
                file.write(msgspec.json.encode({"columns": table[0], "rows": table[1]}) + b"\n")
        else:
            shutil.copyfile(path, target)
        group = media_type.partition("/")[0]
        kind = "table" if table else group if group in ("image", "audio") else "file"
        return {"type": "media", "step": step, "ts": wall, "key": key, "kind": kind, "path": relative}


def _take(item: Item, manifest: dict[str, Any], ledger: Ledger) -> bool:
    """Put *item* into the manifest; return False if it does not belong there."""
    if item.kind == "setting":
        manifest["params"][item.name] = _parameter(item, ledger)
        return True
    if item.kind == "note" and item.value.get("topic") == PROVENANCE_TOPIC:
        return _take_provenance(item, manifest)
    if item.kind != "fact":
        return False
    provenance = manifest["provenance"]
    if item.name in _SAME:
        manifest[item.name] = item.value
    elif item.name in _PROVENANCE:
        provenance[_PROVENANCE[item.name]] = item.value
    elif item.name == "parent" and isinstance(item.value, dict):
        manifest["parent_id"] = item.value.get("run_id")
        left = sorted(item.value.keys() - {"run_id"})
        if left:
            ledger.changed(PART_DROPPED, item.place, ", ".join(left))
    elif item.name in ("git", "host") and isinstance(item.value, dict):
        return _take_part(item, provenance, ledger)
    else:
        return False
    return True


def _take_provenance(item: Item, manifest: dict[str, Any]) -> bool:
    """Put back what an import kept of a manifest; return False if the note is another one."""
    said = json_of(item.value.get("text"))
    if not isinstance(said, dict):
        return False
    for key, value in said.items():
        if key not in ("schema_version", "id", "started_at", "params"):
            (manifest["provenance"] if key in _MACHINE else manifest)[key] = value
    return True


def _take_part(item: Item, provenance: dict[str, Any], ledger: Ledger) -> bool:
    places = {"sha": "git_commit", "dirty": "git_dirty"} if item.name == "git" else {"name": "hostname"}
    kept = {places[key]: value for key, value in item.value.items() if key in places}
    provenance |= kept
    if kept and len(kept) < len(item.value):
        left = {key: value for key, value in item.value.items() if key not in places}
        ledger.changed(PART_DROPPED, item.place, left, "left out")
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
    if item.kind == "note":
        return _remark(item.value)
    if item.kind == "end" and item.name == "reason":
        return {"type": "finished", "status": STATUSES.get(str(item.value), "killed"), "ended_at": run.wall(item.t)}
    return None


def _remark(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return the event of a note that munin has one for: of the topic ``notes``, ``tags`` or ``summary``."""
    topic, said = value.get("topic"), json_of(value.get("text"))
    if topic == "notes":
        return {"type": "notes", "value": value.get("text")}
    if topic == "tags" and isinstance(said, list) and all(isinstance(each, str) for each in said):
        return {"type": "tags", "values": said}
    return {"type": "summary", "values": said} if topic == "summary" and isinstance(said, dict) else None


def _definition(item: Item, ledger: Ledger) -> dict[str, Any] | None:
    said = item.value
    name, goal = str(said.get("name")), said.get("goal")
    if name.endswith("*"):
        return None
    left = {key: said[key] for key in said if key not in {"kind", "t", "phase", "name", "goal", "step_name"}}
    if left:
        ledger.changed(PART_DROPPED, item.place, left, "left out")
    event = {"type": "define_metric", "key": name, "summary": goal if goal in GOALS else "last"}
    return event | dict(_optional(("step_metric", said.get("step_name")), ("goal", GOALS.get(str(goal)))))


def _optional(*members: tuple[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((key, value) for key, value in members if value is not None)
