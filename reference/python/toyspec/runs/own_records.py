"""What a record of a user's profile says in terms of any run: its settings, step, time and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from toyspec.findings import Profile
from toyspec.format.flattening import flattened
from toyspec.format.json_numbers import number
from toyspec.format.profiles import closing_kind
from toyspec.generated.fields import FIELDS

if TYPE_CHECKING:
    from toyspec.format.own_profiles import OwnProfile
    from toyspec.reading.records import Record

_OURS = (None, *get_args(Profile))
_NUMERIC = ("number", "integer")
# Later than any time since the start of a run: 2001-09-09 since the Unix epoch, in seconds.
_FIRST_WALL = 1e9


class OwnFacts(msgspec.Struct, frozen=True):
    """What one record says."""

    step: Any
    """None if the record has no metrics."""
    time: float | None
    """In seconds."""
    origin: Literal["unix", "run"]
    """``unix`` for times since 1970, ``run`` for times since the start of the run."""
    metrics: dict[str, float | int | None]
    start: dict[str, Any]
    """The settings of the run; empty if the record states none."""
    end: dict[str, Any] | None
    """The members of the last record of a complete run; None for all other records."""
    goals: dict[str, str]
    """The goals of the metrics."""


def own_facts(record: Record, last_step: int | None) -> OwnFacts | None:
    """Return what *record* says; None if it is not of a profile of the user.

    A record without a step has the *last_step*; in a profile without steps, the records with metrics are counted.
    """
    profile = _profile(record)
    if profile is None:
        return None
    view, last = profile.view, last_step or 0
    time = number(record.get(view.time)) if view.time else None
    metrics = own_metrics(record)
    members = {key: value for key, value in record.value.items() if key not in (profile.tag, view.time)}
    return OwnFacts(
        step=_step(record, view.step, last) if metrics else None,
        time=time,
        origin="unix" if time is not None and time >= _FIRST_WALL else "run",
        metrics=metrics,
        start={"config": members} if record.kind is not None and record.kind == view.start else {},
        end=members if record.kind is not None and record.kind == closing_kind(record.profile) else None,
        goals=view.goals,
    )


def _step(record: Record, key: str | None, last: int) -> Any:
    return last + 1 if key is None else record.get(key, last)


def own_metrics(record: Record) -> dict[str, float | int | None]:
    """Return the numbers of *record* by name, those of inner objects too; null where a number may be null.

    The step and the time are not metrics. A key that several kinds have follows its kind and a slash.
    """
    profile = _profile(record)
    if profile is None:
        return {}
    view, kind = profile.view, record.kind
    types = FIELDS.get(profile.name, {}).get(kind or "entry", {})
    found: dict[str, float | int | None] = {}
    for name, value in flattened(record.value).items():
        if name in (view.step, view.time, profile.tag):
            continue
        if number(value) is not None or (value is None and types.get(name) in _NUMERIC):
            found[f"{kind}/{name}" if name in view.shared else name] = value
    return found


def _profile(record: Record) -> OwnProfile | None:
    if record.profile in _OURS:
        return None
    from toyspec.format.own_profiles import is_loaded, loaded

    name = str(record.profile)
    return loaded(name) if is_loaded(name) else None
