"""Logs of the other profiles of this project, kaun/v1 and metrics/v1."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.convert.formats import ForeignRun
from toyspec.convert.intake import earliest
from toyspec.convert.reports import DAMAGED, NO_PLACE, PART_DROPPED, Ledger, drop_damage
from toyspec.convert.sources import files_at, object_in
from toyspec.core.errors import StreamError
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE, METRICS_FILE
from toyspec.core.format.record_mapping import cut_count
from toyspec.core.reading.log_detection import detect_profile_at, first_object
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import open_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toyspec.convert.intake import Intake
    from toyspec.core.findings import Profile
    from toyspec.core.reading.records import Record

_HEAD_BYTES = 1 << 18
_KAUN_FRAMING = frozenset(["schema_version", "run_id", "created_at"])
_KAUN_FACTS = (("config", dict), ("tags", list), ("experiment", str))
_METRICS_FRAMING = frozenset(["step", "wall_time_ms", "extra"])


class _Logs(NamedTuple):
    """The logs of one profile."""

    profile: Profile
    records: Callable[[str, Intake], Iterator[bytes]]

    def find_runs(self, path: str) -> Iterator[ForeignRun]:
        """Yield the runs at *path* and below."""
        for stream in files_at(path, lambda name: name in (EVENTS_FILE, METRICS_FILE)):
            if _profile_of(stream) == self.profile:
                manifest = os.path.join(os.path.dirname(stream), MANIFEST_FILE)
                has_manifest = self.profile == "kaun/v1" and os.path.isfile(manifest)
                files = [stream, manifest] if has_manifest else [stream]
                name = os.path.basename(os.path.dirname(os.path.abspath(stream)))
                yield ForeignRun.of(name, stream, files, partial(self.records, stream), parts=[stream])


def _profile_of(path: str) -> Profile | None:
    """Return the profile of the stream at *path*, by the first readable record at its start."""
    try:
        with closing(open_named(path)) as source:
            first = first_object(source.read(_HEAD_BYTES))
    except (StreamError, OSError):
        return None
    return None if first is None else detect_profile_at(path, first)


def records(path: str, profile: Profile | None, ledger: Ledger, *, dialect: str | None = None) -> Iterator[Record]:
    """Yield the records of the stream, or of the log of a *dialect*; what cannot be read is dropped."""
    reading = read(path, mode="salvage", profile=profile, dialect=dialect)
    done = 0
    for record in reading:
        yield record
        ledger.advance(record.offset - done)
        done = record.offset
    drop_damage(reading.report, ledger)


def _kaun(stream: str, intake: Intake) -> Iterator[bytes]:
    ledger, path = intake.ledger, os.path.join(os.path.dirname(stream), MANIFEST_FILE)
    manifest = object_in(path) if os.path.isfile(path) else {}
    if manifest is None:
        ledger.lose(DAMAGED, MANIFEST_FILE, "not a JSON object")
        manifest = {}
    first = next((record.time for record in records(stream, "kaun/v1", Ledger())), None)
    rest = {key: value for key, value in manifest.items() if key not in _KAUN_FRAMING}
    config, tags, group = (rest.pop(key) if isinstance(rest.get(key), kind) else None for key, kind in _KAUN_FACTS)
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


def _metrics(stream: str, intake: Intake) -> Iterator[bytes]:
    # Times count from the start of training.
    yield from intake.begin(0.0)
    for record in records(stream, "metrics/v1", intake.ledger):
        value, extra = record.value, record.value.get("extra")
        members = {key: item for key, item in value.items() if key not in _METRICS_FRAMING}
        members |= extra if isinstance(extra, dict) else {}
        step = value.get("step") if record.step is None else record.step
        yield from intake.values(record.time, step, members, f"line {record.line}")


KAUN, METRICS = _Logs("kaun/v1", _kaun), _Logs("metrics/v1", _metrics)
