"""The views of a run: see spec/views.md. Memory grows with the number of steps, which the loss curve holds."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from toyspec.core.findings import Profile, State
from toyspec.core.format.decoding import event_types
from toyspec.core.format.numbers import binary32, finite_number
from toyspec.core.format.record_mapping import cut_count
from toyspec.core.generated.fields import FIELDS, NULLABLE, REQUIRED
from toyspec.core.generated.kaun_v1 import RunManifest
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.kaun.scalars import is_smaller_better, lateness
from toyspec.core.reading.log_detection import read_manifest
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import rank_streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toyspec.core.reading.records import Record

_RUN_ID = next(field.type for field in msgspec.structs.fields(RunManifest) if field.name == "run_id")


class Views(msgspec.Struct, frozen=True, kw_only=True):
    """The views of one run."""

    profile: Profile | None
    state: State
    members: dict[str, Any]
    """Each view by its name; one that has no value is not there, and None is a value that was not finite."""


def views_of(
    source: str | os.PathLike[str] | bytes,
    *,
    profile: Profile | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    name: str | None = None,
) -> Views:
    """Return the views of the run that *source* is: the path of a stream or of a run directory, or a stream's bytes.

    *profile* is detected where it is not named, for bytes by the help of *name*, that of their file.
    Raises StreamMissingError or StreamUnreadableError; damage is skipped.
    """
    # The views are defined for profiles; other logs have none.
    reading = read(
        source,
        mode="salvage",
        attempts="latest",
        profile=profile,
        max_line_bytes=max_line_bytes,
        name=name,
        dialect=None,
    )
    records = list(reading)
    report = reading.report
    members: dict[str, Any] = {}
    if report.profile == "toy/v1":
        members = _toy(records)
    elif report.profile == "metrics/v1":
        members = _metrics(records)
    elif report.profile == "kaun/v1":
        members = _kaun_run_id(source) | {"tags": _kaun_tags(records)}
    views = Views(profile=report.profile, state=report.state, members=members)
    if report.profile == "toy/v1" and not isinstance(source, bytes) and os.path.isdir(source):
        members |= _ranks(os.fspath(source), views, max_line_bytes)
    return views


def _ranks(directory: str, first: Views, max_line_bytes: int) -> dict[str, Any]:
    """Return the views of ranks, of which *first* is rank 0; none where it is the only one."""
    others = {rank: path for rank, path in rank_streams(directory).items() if rank}
    views = {rank: views_of(path, profile="toy/v1", max_line_bytes=max_line_bytes) for rank, path in others.items()}
    rows = [_rank(rank, found) for rank, found in {0: first, **views}.items()] if others else []
    stopped = first_stopped({row["rank"]: (row.get("last_step"), row["state"]) for row in rows})
    return ({"ranks": rows} if rows else {}) | ({} if stopped is None else {"first_stopped": stopped})


def _rank(rank: int, views: Views) -> dict[str, Any]:
    found: dict[str, Any] = {"rank": rank, "state": views.state}
    return found | {key: views.members[key] for key in ("steps", "last_step", "reason") if key in views.members}


def first_stopped(ranks: Mapping[int, tuple[int | None, str]]) -> int | None:
    """Return the rank that came least far; of several the only one that is not complete; None where none is alone.

    *ranks* has the last step and the state of each; a rank without a step came less far than any other.
    """
    came_to = {rank: -1 if step is None else step for rank, (step, _) in ranks.items()}
    lowest = min(came_to.values(), default=0)
    left = [rank for rank, step in came_to.items() if step == lowest]
    if len(left) > 1:
        left = [rank for rank in left if ranks[rank][1] != "complete"]
    return left[0] if len(left) == 1 else None


def _toy(records: Sequence[Record]) -> dict[str, Any]:
    known = [record for record in records if record.kind in FIELDS["toy/v1"]]
    start = next((record for record in known if record.kind == "run_start"), None)
    # A run that goes on after its end has no end, until it ends again.
    frame = next((record for record in reversed(known) if record.kind in ("run_end", "run_resume")), None)
    end = frame if frame is not None and frame.kind == "run_end" else None
    phase = _valid(start, "phase", default="train")
    steps = [record for record in known if _is_step(record, phase)]
    curve = _present(_valid(record, "loss") for record in steps)
    last_loss = curve[-1] if curve else UNSET
    found = {
        "run_id": _valid(start, "run_id"),
        "phase": phase,
        "steps": len(steps),
        "last_step": _valid(steps[-1], "step") if steps else UNSET,
        "loss_curve": curve,
        "final_loss": _valid(end, "final_loss", default=last_loss),
        "duration_seconds": next(filter(_is_set, (_valid(record, "t") for record in reversed(known))), UNSET),
        "reason": _valid(end, "reason"),
    }
    return {name: value for name, value in found.items() if _is_set(value)}


def _is_step(record: Record, phase: str) -> bool:
    if record.kind != "step" or not (_is_set(_valid(record, "t")) and _is_set(_valid(record, "step"))):
        return False
    return bool(_valid(record, "phase") in (UNSET, phase))


def _metrics(records: Iterable[Record]) -> dict[str, Any]:
    required = REQUIRED["metrics/v1"]["entry"]
    entries = [record for record in records if all(_is_set(_valid(record, key)) for key in required)]
    curve = [None if loss is None else binary32(loss) for loss in (_valid(record, "loss") for record in entries)]
    finite = [loss for loss in curve if loss is not None]
    found: dict[str, Any] = {"steps": len(entries), "loss_curve": curve, "non_finite": len(curve) - len(finite)}
    if entries:
        found |= {"last_step": _valid(entries[-1], "step"), "final_loss": curve[-1]}
        found["duration_seconds"] = entries[-1].time
    if finite:
        total = 0.0
        for loss in finite:
            total += loss
        mean = binary32(total / len(finite))
        found |= {"loss_min": min(finite), "loss_mean": mean, "loss_max": max(finite)}
    return found


def _kaun_run_id(source: str | os.PathLike[str] | bytes) -> dict[str, Any]:
    """Return the run_id of a run directory; a stream alone has none."""
    if isinstance(source, bytes) or not os.path.isdir(source):
        return {}
    manifest = read_manifest(os.fspath(source)) or {}
    try:
        return {"run_id": msgspec.convert(manifest.get("run_id"), _RUN_ID)}
    except msgspec.ValidationError:
        return {"run_id": os.path.basename(os.path.abspath(source))}


def _kaun_tags(records: Iterable[Record]) -> dict[str, Any]:
    series: dict[str, list[Record]] = {}
    for record in records:
        for tag in record.values if record.kind == "scalar" and record.step is not None else ():
            series.setdefault(tag, []).append(record)
    return {tag: _tag(tag, series[tag]) for tag in sorted(series)}


def _tag(tag: str, scalars: Sequence[Record]) -> dict[str, Any]:
    found: dict[str, Any] = {"count": len(scalars)}
    found["latest"] = _point(tag, max(scalars, key=lambda scalar: lateness(int(scalar.step or 0), scalar.epoch)))
    finite = [scalar for scalar in scalars if finite_number(scalar.values[tag]) is not None]
    goals = [scalar.goal[tag] == "min" for scalar in scalars if tag in scalar.goal]
    choose = min if is_smaller_better(tag, goals[-1] if goals else None) else max
    if finite:
        found["best"] = _point(tag, choose(finite, key=lambda scalar: finite_number(scalar.values[tag]) or 0.0))
    return found


def _point(tag: str, scalar: Record) -> dict[str, Any]:
    epoch = cut_count(scalar.epoch)
    return {
        "step": scalar.step,
        **({} if epoch is None else {"epoch": epoch}),
        "value": finite_number(scalar.values[tag]),
    }


@cache
def _types(profile: Profile, kind: str | None) -> dict[str, Any]:
    """Return the type of each member of a *kind*; raise KeyError for a kind that *profile* does not have."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(event_types(profile)[kind])}


def _valid(record: Record | None, key: str, default: Any = UNSET) -> Any:
    """Return the member *key* as its type, *default* if it is absent, unknown or invalid."""
    if record is None or record.profile is None or key not in record:
        return default
    if record[key] is None:
        return None if key in NULLABLE[record.profile].get(record.kind or "entry", ()) else default
    try:
        return msgspec.convert(record[key], _types(record.profile, record.kind)[key])
    except (KeyError, ValueError):  # the kind or the key is unknown, or the value is invalid
        return default


def _present(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not UNSET]


def _is_set(value: Any) -> bool:
    return value is not UNSET
