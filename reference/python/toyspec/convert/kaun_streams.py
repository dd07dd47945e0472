"""kaun/v1 runs, in both directions."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.losses import (
    DAMAGED,
    NO_PLACE,
    NOT_FINITE,
    PART_DROPPED,
    WITHOUT_STEP,
    Ledger,
    as_measure,
    step_member,
)
from toyspec.convert.native_profiles import find_native, has_native, records
from toyspec.convert.sources import object_in
from toyspec.convert.timeline import Timeline, earliest
from toyspec.format.canonical import encode
from toyspec.format.profiles import EVENTS_FILE, MANIFEST_FILE
from toyspec.format.record_mapping import cut_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.exported_runs import ExportedRun
    from toyspec.convert.formats import ForeignRun
    from toyspec.reading.records import Record


def recognise(path: str) -> bool:
    """Return whether *path* is a kaun/v1 run, or a directory with some."""
    return has_native(path, "kaun/v1")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Return the kaun/v1 runs at *path* and below."""
    return find_native(path, "kaun/v1", _events)


def _events(stream: str, ledger: Ledger) -> Iterator[dict[str, Any]]:
    manifest = _manifest(os.path.join(os.path.dirname(stream), MANIFEST_FILE), ledger)
    scratch = Ledger()
    first = next((record.time for record in records(stream, "kaun/v1", scratch)), None)
    timeline = Timeline(ledger, earliest((manifest.get("created_at"), first)))
    start = timeline.run_start()
    for theirs, ours, kind in (("config", "config", dict), ("tags", "tags", list), ("experiment", "group", str)):
        if isinstance(manifest.get(theirs), kind):
            start[ours] = manifest[theirs]
    yield start
    goals: dict[str, str] = {}
    for record in records(stream, "kaun/v1", ledger):
        yield from _record(record, timeline, goals, ledger)


def _manifest(path: str, ledger: Ledger) -> dict[str, Any]:
    if not os.path.isfile(path):
        return {}
    value = object_in(path)
    if value is None:
        ledger.lose(DAMAGED, MANIFEST_FILE, "not a JSON object")
        return {}
    framing = {"schema_version", "run_id", "created_at"}
    kept = {"config": dict, "tags": list, "experiment": str}
    for key in (key for key in value if key not in framing):
        ledger.items += 1
        if key in kept and isinstance(value[key], kept[key]):
            ledger.done()
        else:
            ledger.drop(NO_PLACE, f"{MANIFEST_FILE}: {key}", value[key])
    if not all(isinstance(tag, str) for tag in value.get("tags") or ()):
        value["tags"] = [str(tag) for tag in value["tags"]]
    return value


def _record(record: Record, timeline: Timeline, goals: dict[str, str], ledger: Ledger) -> Iterator[dict[str, Any]]:
    ledger.items += 1
    place = f"line {record.line}"
    if record.kind != "scalar" or not record.values:
        ledger.drop(NO_PLACE, place, record.value)
        return
    made: dict[str, Any] = {"kind": "scalars", "t": timeline.t(record.time, place)}
    for tag, goal in record.goal.items():
        if goals.get(tag) != goal:
            goals[tag] = goal
            yield {"kind": "define", "t": made["t"], "name": tag, "goal": goal}
    made |= step_member(record.get("step") if record.step is None else record.step, place, ledger)
    if (epoch := cut_count(record.get("epoch"))) is not None:
        made["epoch"] = epoch
    elif record.get("epoch") is not None:
        ledger.changed(PART_DROPPED, f"{place}: epoch", record.get("epoch"))
    made["values"] = {
        tag: None if value is None else as_measure(value, f"{place}: {tag}", ledger)
        for tag, value in record.values.items()
    }
    ledger.done()
    yield made


def export(runs: Iterator[tuple[ExportedRun, Ledger]], directory: str) -> None:
    """Write a run directory for each of *runs*."""
    for run, ledger in runs:
        folder = os.path.join(directory, run.run_id)
        os.makedirs(folder)
        with open(os.path.join(folder, EVENTS_FILE), "wb") as file:
            file.writelines(line + b"\n" for line in _lines(run, ledger))
        manifest: dict[str, Any] = {"schema_version": 1, "run_id": run.run_id, "created_at": run.wall(0.0)}
        start = run.start
        manifest |= {key: start[key] for key in ("tags", "config") if start.get(key)}
        if isinstance(start.get("group"), str):
            manifest["experiment"] = start["group"]
        with open(os.path.join(folder, MANIFEST_FILE), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def _lines(run: ExportedRun, ledger: Ledger) -> Iterator[bytes]:
    goals: dict[str, str] = {}
    for item in run.items(ledger):
        if item.kind == "definition" and item.value.get("goal") in ("min", "max"):
            goals[str(item.value.get("name"))] = item.value["goal"] == "min"
        elif item.kind == "measure":
            if item.step is None:
                ledger.changed(WITHOUT_STEP, item.place, "no step", 0)
            if item.value is not None and not math.isfinite(item.value):
                ledger.changed(NOT_FINITE, item.place, item.value, "null")
            event = {"type": "scalar", "step": item.step or 0, "wall_time": run.wall(item.t), "tag": item.name}
            goal = {"minimize": goals[item.name]} if item.name in goals else {}
            yield encode({**event, "value": item.value, **goal}, profile="kaun/v1")
        elif not (item.kind == "setting" or (item.kind == "fact" and item.name in ("tags", "group"))):
            ledger.drop(NO_PLACE, item.place, item.value)
            continue
        ledger.done()
