"""The metrics of a record of any log, by name."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from toyspec.format.json_numbers import number
from toyspec.runs.own_records import own_metrics

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from toyspec.reading.records import Record

# Numbers that place a record, and are not metrics.
_PLACES = frozenset(["kind", "t", "step", "phase", "epoch", "wall_time_ms", "layer", "head", "token_id"])
_SMALLER_IS_BETTER = ("loss", "error", "ppl", "perplexity")

Metrics = dict[str, float | int | None]

LOSS_TAGS = (
    "loss",
    "train_loss",
    "train/loss",
    "Loss/train",
    "train_loss_step",
    "train_loss_epoch",
    "learning/loss",
    "train/CrossEntropyLoss",
    "total_loss",
    "mean_loss",
    "metrics/loss",
)
"""Names of the training loss in streams that do not define it, or have no step records."""


def metrics_of(record: Record) -> Metrics:
    """Return the metrics of *record* by name, None where a value is null.

    They are the members of a step or an entry and those of its extra; the values of ``scalars``; an eval's members,
    after its name and a slash; the value of a kaun scalar, by its tag; the values of a row of another program's log;
    the numbers of a record of a user's profile.
    """
    value = record.value
    if record.profile == "toy/v1":
        return _of_event(record.kind, value)
    if record.profile == "metrics/v1":
        return _members(value)
    if record.profile == "kaun/v1":
        tag = value.get("tag")
        return _numbers({tag: value.get("value", "")}) if isinstance(tag, str) else {}
    return own_metrics(record) if record.profile is not None else getattr(record, "values", {})


def loss_among(metrics: Container[str]) -> str | None:
    """Return the name of the training loss among *metrics*; None if it is not there."""
    return next((name for name in LOSS_TAGS if name in metrics), None)


@lru_cache(maxsize=1024)
def default_goal(name: str) -> str | None:
    """Return ``min`` for a metric whose name says that smaller values are better, else None."""
    lowered = name.lower()
    return "min" if any(word in lowered for word in _SMALLER_IS_BETTER) else None


def goal_of(name: str, goals: Mapping[str, str]) -> str | None:
    """Return the goal of the metric *name* by *goals*, whose names may end in ``*``, else by its name."""
    if name in goals:
        return goals[name]
    fitting = [key for key in goals if key.endswith("*") and name.startswith(key[:-1])]
    return goals[max(fitting, key=len)] if fitting else default_goal(name)


def _of_event(kind: str | None, value: Mapping[str, Any]) -> Metrics:
    if kind == "step":
        return _members(value)
    if kind == "scalars":
        values = value.get("values")
        return _numbers(values) if isinstance(values, dict) else {}
    if kind == "eval" and isinstance(value.get("name"), str):
        return {f"{value['name']}/{name}": number for name, number in _members(value).items()}
    return {}


def _members(value: Mapping[str, Any]) -> Metrics:
    found = _numbers({name: member for name, member in value.items() if name not in _PLACES})
    extra = value.get("extra")
    return _numbers(extra) | found if isinstance(extra, dict) else found


def _numbers(members: Mapping[str, Any]) -> Metrics:
    return {name: member for name, member in members.items() if member is None or number(member) is not None}
