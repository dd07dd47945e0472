"""One run as a row of the table: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import os
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any

from toyspec.format.json_numbers import number
from toyspec.runs.members import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toyspec.runs.summary import RunSummary

MOST_SETTINGS = 1000
MOST_TAGS = 100
_MOST_CHARS = 4096
# Settings that say how many steps a run will do, by their last name.
_PLANNED = ("max_steps", "total_steps", "num_steps", "train_steps", "max_iters", "num_train_steps", "steps")


class RunRow(dict[str, Any]):
    """The row of a run whose members are made when they are asked for: a filter asks for few of very many runs."""

    def __init__(self, summary: RunSummary, run: str) -> None:
        """*run* is the id of the run of *summary*."""
        super().__init__(id=encodable(run))
        self.summary = summary

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings of the run."""
        return settings_of(self.summary.start)

    def __missing__(self, name: str) -> Any:
        found = self[name] = _MEMBERS[name](self)
        return found


def row_of(summary: RunSummary, run: str, *, metrics_left_out: int = 0) -> dict[str, Any]:
    """Return the row of *summary*, whose id is *run*; ``findings`` is None, since nothing has checked it."""
    row = RunRow(summary, run)
    left_out = {"metrics": metrics_left_out, "config": max(0, len(row.settings) - MOST_SETTINGS)}
    found = {name: row[name] for name in ("id", *_MEMBERS)}
    return found | {"findings": None, "left_out": left_out, "message": None}


def _text_member(name: str) -> Callable[[RunRow], str | None]:
    def member(row: RunRow) -> str | None:
        value = row.summary.start.get(name)
        return cut(value) if isinstance(value, str) else None

    return member


def _name(row: RunRow) -> str:
    name = row.summary.start.get("name")
    return cut(name) if isinstance(name, str) and name else cut(encodable(row.summary.name))


def _tags(row: RunRow) -> list[str]:
    tags = row.summary.start.get("tags")
    return [cut(tag) for tag in tags[:MOST_TAGS] if isinstance(tag, str)] if isinstance(tags, list) else []


_MEMBERS: dict[str, Callable[[RunRow], Any]] = {
    "run_id": _text_member("run_id"),
    "name": _name,
    "group": _text_member("group"),
    "tags": _tags,
    "state": lambda row: row.summary.state,
    "profile": lambda row: row.summary.profile,
    "dialect": lambda row: None if row.summary.dialect is None else row.summary.dialect.name,
    "started": lambda row: row.summary.started_at,
    "seconds": lambda row: finite(row.summary.seconds),
    "steps": lambda row: row.summary.last_step,
    "final_loss": lambda row: finite(row.summary.final_loss),
    "reason": lambda row: _reason(row.summary),
    "sealed": lambda row: bool(row.summary.sealed),
    "progress": lambda row: progress_of(row.summary.last_step, row.settings),
    "bytes": lambda row: row.summary.extent.size,
    "config": lambda row: dict(islice(row.settings.items(), MOST_SETTINGS)),
    "metrics": lambda row: {cut(name): _metric(row.summary, name) for name in row.summary.series},
}


def unreadable_row(run: str, message: str, size: int) -> dict[str, Any]:
    """Return the row of a run that could not be read."""
    return {
        "id": encodable(run), "run_id": None, "name": encodable(os.path.basename(run)), "group": None, "tags": [],
        "state": "damaged", "profile": None, "dialect": None, "started": None, "seconds": None, "steps": None,
        "final_loss": None, "reason": None, "sealed": False, "progress": None, "bytes": size, "findings": None,
        "config": {}, "metrics": {}, "left_out": {"metrics": 0, "config": 0},
        "message": message,
    }  # fmt: skip


def _reason(summary: RunSummary) -> str | None:
    reason = summary.end.get("reason") if summary.end is not None else None
    return cut(reason) if isinstance(reason, str) else None


def finite(value: Any) -> Any:
    """Return a number that JSON has; None for another."""
    found = number(value)
    return found if found is not None and isfinite(found) else None


def encodable(text: str) -> str:
    """Return *text* as UTF-8 can hold it, with escapes for what it cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


def settings_of(start: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in the first record of a run: flat, as numbers, text, booleans and None."""
    found: dict[str, Any] = {}
    for part in ("config", "model"):
        members = start.get(part)
        if isinstance(members, dict):
            prefix = "" if part == "config" else "model."
            found |= {cut(f"{prefix}{name}"): _scalar(value) for name, value in flat(members)}
    return found


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return finite(value)
    return f"[{len(value)} items]" if isinstance(value, list | dict) else None


def _metric(summary: RunSummary, name: str) -> dict[str, Any]:
    curve = summary.series[name]
    smaller = summary.smaller_is_better(name)
    best = summary.best(name)
    return {
        "last": finite(curve.last_finite),
        "best": None if best is None else finite(best[1]),
        "goal": None if smaller is None else "min" if smaller else "max",
        "count": curve.count,
        "nan": curve.not_finite,
    }


def progress_of(last_step: float | None, settings: dict[str, Any]) -> float | None:
    """Return the share of its planned steps that a run has done; None where it is not known."""
    if last_step is None:
        return None
    short = {name.rpartition(".")[2]: value for name, value in reversed(settings.items())}
    planned = next((short[name] for name in _PLANNED if number(short.get(name)) is not None), None)
    return min(1.0, max(0.0, last_step / planned)) if planned and planned > 0 else None


def cut(text: str) -> str:
    """Return *text*, cut where it is too long for a table."""
    return text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "…"
