"""Logs of the other profiles of this project, kaun/v1 and metrics/v1."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest
from toyspec.convert.reports import DAMAGED, NO_PLACE, PART_DROPPED, drop_damage
from toyspec.convert.sources import files_at, head_of, json_of
from toyspec.core.errors import StreamError
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE, METRICS_FILE
from toyspec.core.format.record_mapping import cut_count
from toyspec.core.reading.log_detection import detect_profile_at, first_object
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import open_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake
    from toyspec.convert.reports import Ledger
    from toyspec.core.findings import Profile
    from toyspec.core.reading.records import Record

_HEAD_BYTES = 1 << 18
_MANIFEST_BYTES = 1 << 24
_MANIFEST_FRAMING = frozenset(["schema_version", "run_id", "created_at"])
_FACTS = (("config", dict), ("tags", list), ("experiment", str))
_FRAMING = frozenset(["type", "step", "wall_time", "tag", "value", "epoch", "minimize", "wall_time_ms"])


class _Logs(NamedTuple):
    """The logs of one profile."""

    profile: Profile

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield the runs at *path* and below."""
        for stream in files_at(path, lambda name: name in (EVENTS_FILE, METRICS_FILE)):
            if _profile_of(stream) == self.profile:
                manifest = os.path.join(os.path.dirname(stream), MANIFEST_FILE)
                files = [stream, manifest] if os.path.isfile(manifest) else [stream]
                name = os.path.basename(os.path.dirname(os.path.abspath(stream)))
                yield ForeignRun.of(name, stream, files, partial(_lines, stream, self.profile), parts=[stream])


def _profile_of(path: str) -> Profile | None:
    """Return the profile of the stream at *path*, by the first readable record at its start."""
    try:
        with closing(open_named(path)) as source:
            first = first_object(source.read(_HEAD_BYTES))
    except (StreamError, OSError):
        return None
    return None if first is None else detect_profile_at(path, first)


def _lines(stream: str, profile: Profile, intake: Intake) -> Iterator[bytes]:
    """Yield the lines of the run in *stream*; what cannot be read is dropped."""
    ledger = intake.ledger
    manifest = _manifest(os.path.join(os.path.dirname(stream), MANIFEST_FILE), ledger)
    with read(stream, mode="salvage", profile=profile) as reading:
        first = next((record.time for record in reading), None)
    rest = {key: value for key, value in manifest.items() if key not in _MANIFEST_FRAMING}
    config, tags, group = (rest.pop(key) if isinstance(rest.get(key), kind) else None for key, kind in _FACTS)
    tags = tags and list(map(str, tags))
    # The times of metrics/v1 count from the start of training.
    began = 0.0 if profile == "metrics/v1" else earliest((manifest.get("created_at"), first))
    yield from intake.begin(began, config=config, tags=tags, group=group, rest=rest)
    goals: dict[str, str] = {}
    with read(stream, mode="salvage", profile=profile) as reading:
        done = 0
        for record in reading:
            yield from _of_record(record, goals, intake)
            ledger.advance(record.offset - done)
            done = record.offset
        drop_damage(reading.report, ledger)


def _manifest(path: str, ledger: Ledger) -> dict[str, Any]:
    try:
        manifest = json_of(head_of(path, _MANIFEST_BYTES)) if os.path.isfile(path) else {}
    except OSError:
        manifest = None
    if isinstance(manifest, dict):
        return manifest
    ledger.lose(DAMAGED, MANIFEST_FILE, "not a JSON object")
    return {}


def _of_record(record: Record, goals: dict[str, str], intake: Intake) -> Iterator[bytes]:
    """Yield the lines of *record*; *goals* are those of the metrics so far."""
    ledger, place, value = intake.ledger, f"line {record.line}", record.value
    if record.kind is not None and not record.values:
        ledger.lose(NO_PLACE, place, value, name=record.kind)
        return
    for name, goal in record.goal.items():
        if goals.get(name) != goal:
            goals[name] = goal
            t = intake.timeline.t(record.time, place)
            yield from intake.record({"kind": "define", "t": t, "name": name, "goal": goal}, place)
    epoch = cut_count(record.get("epoch"))
    if epoch is None and record.get("epoch") is not None:
        ledger.changed(PART_DROPPED, f"{place}: epoch", record.get("epoch"))
    members: dict[str, Any] = {} if epoch is None else {"epoch": float(epoch)}
    others = {key: item for key, item in value.items() if key not in _FRAMING}
    extra = others.pop("extra", None)
    others |= extra if isinstance(extra, dict) else {} if extra is None else {"extra": extra}
    step = record.get("step") if record.step is None else record.step
    yield from intake.values(record.time, step, others | record.values, place, **members)


KAUN, METRICS = _Logs("kaun/v1"), _Logs("metrics/v1")
