"""kaun/v1 runs, in both directions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toyspec.convert.intake import earliest
from toyspec.convert.native_profiles import find_native, has_native, records
from toyspec.convert.reports import (
    DAMAGED,
    NO_PLACE,
    PART_DROPPED,
    Ledger,
)
from toyspec.convert.sources import object_in
from toyspec.core.format.profiles import MANIFEST_FILE
from toyspec.core.format.record_mapping import cut_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.formats import ForeignRun
    from toyspec.convert.intake import Intake


_FRAMING = frozenset(["schema_version", "run_id", "created_at"])
_FACTS = (("config", dict), ("tags", list), ("experiment", str))


def recognise(path: str) -> bool:
    """Return whether *path* is a kaun/v1 run, or a directory with some."""
    return has_native(path, "kaun/v1")


def find_runs(path: str) -> Iterator[ForeignRun]:
    """Return the kaun/v1 runs at *path* and below."""
    return find_native(path, "kaun/v1", _records)


def _records(stream: str, intake: Intake) -> Iterator[bytes]:
    ledger = intake.ledger
    manifest = _manifest(os.path.join(os.path.dirname(stream), MANIFEST_FILE), ledger)
    first = next((record.time for record in records(stream, "kaun/v1", Ledger())), None)
    rest = {key: value for key, value in manifest.items() if key not in _FRAMING}
    config, tags, group = (rest.pop(key) if isinstance(rest.get(key), kind) else None for key, kind in _FACTS)
    tags = tags and list(map(str, tags))
    began = earliest((manifest.get("created_at"), first))
    yield from intake.begin(began, config=config, tags=tags, group=group, rest=rest)
    goals: dict[str, str] = {}
    for record in records(stream, "kaun/v1", ledger):
        place = f"line {record.line}"
        if record.kind != "scalar" or not record.values:
            ledger.lose(NO_PLACE, place, record.value, name=str(record.kind))
            continue
        for tag, goal in record.goal.items():
            if goals.get(tag) != goal:
                goals[tag] = goal
                t = intake.timeline.t(record.time, place)
                yield from intake.record({"kind": "define", "t": t, "name": tag, "goal": goal}, place)
        epoch = cut_count(record.get("epoch"))
        if epoch is None and record.get("epoch") is not None:
            ledger.changed(PART_DROPPED, f"{place}: epoch", record.get("epoch"))
        step = record.get("step") if record.step is None else record.step
        members: dict[str, Any] = {} if epoch is None else {"epoch": float(epoch)}
        yield from intake.values(record.time, step, record.values, place, **members)


def _manifest(path: str, ledger: Ledger) -> dict[str, Any]:
    value = object_in(path) if os.path.isfile(path) else {}
    if value is None:
        ledger.lose(DAMAGED, MANIFEST_FILE, "not a JSON object")
    return value or {}
