"""Logs of the other profiles of this project, kaun/v1 and metrics/v1."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest
from toyspec.convert.reports import DAMAGED, NO_PLACE, REPEATED, Cause, drop_damage
from toyspec.convert.sources import files_at, head_of, json_of
from toyspec.core.errors import StreamError
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE, METRICS_FILE
from toyspec.core.format.record_mapping import cut_count, mapping_of
from toyspec.core.generated.fields import FIELDS
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
_SCALAR = frozenset(["type", "step", "wall_time", "tag", "value", "minimize"])
_TYPED = (("type", str), ("minimize", bool))
# Of an entry, all else is said in numbers and texts.
_ENTRY = (FIELDS["metrics/v1"]["entry"].keys() | mapping_of("metrics/v1").places) - {"step", "wall_time_ms"}
ROUNDED_DOWN = Cause("rounded-down", "changed", "the fraction of an epoch is cut, as views of kaun/v1 do")


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
    is_kaun = record.profile == "kaun/v1"
    if is_kaun and not record.values:
        ledger.lose(NO_PLACE, place, value, name=record.kind or "scalar")
        return
    time = value.get("wall_time" if is_kaun else "wall_time_ms") if record.time is None else record.time
    for name, goal in record.goal.items():
        if goals.get(name) != goal:
            goals[name] = goal
            t = intake.timeline.t(time, place)
            yield from intake.record({"kind": "define", "t": t, "name": name, "goal": goal}, place)
    said, others = {**record.texts, **record.values}, _others(record)
    epoch = cut_count(record.epoch) if is_kaun else record.epoch
    members: dict[str, Any] = {}
    if said and epoch is not None and 0 <= epoch < inf:
        members["epoch"] = float(epoch)
        del others["epoch"]
    for name in (each for each in others if each in said):
        # The text of a metric may be said as a number too.
        if others[name] != said[name]:
            ledger.lose(REPEATED, f"{place}: {name}", others[name], name=name)
    if members and epoch != record.epoch:
        ledger.changed(ROUNDED_DOWN, f"{place}: epoch", record.epoch, epoch)
    step = record.get("step") if record.step is None else record.step
    yield from intake.values(time, step, others | said, place, **members)


def _others(record: Record) -> dict[str, Any]:
    """Return what *record* has beside its framing, and what it says in numbers and texts."""
    value = record.value
    if record.profile == "metrics/v1":
        names = value.keys() & _ENTRY
        if isinstance(value.get("extra"), dict):
            names -= {"extra"}
    elif record.kind in (None, "scalar"):
        wrong = {name for name, kind in _TYPED if not isinstance(value.get(name), kind)}
        names = value.keys() - (_SCALAR - wrong)
    else:
        names = value.keys() & {"epoch"}
    return {name: value[name] for name in value if name in names and value[name] is not None}


KAUN, METRICS = _Logs("kaun/v1"), _Logs("metrics/v1")
