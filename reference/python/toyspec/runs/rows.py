"""One run as a row of the table: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import os
from math import isfinite
from typing import TYPE_CHECKING, Any

from toyspec.format.json_numbers import number
from toyspec.runs.members import flat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.runs.summary import RunSummary

MOST_SETTINGS = 1000
MOST_TAGS = 100
_MOST_CHARS = 4096
# Settings that say how many steps a run will do, by their last name.
_PLANNED = ("max_steps", "total_steps", "num_steps", "train_steps", "max_iters", "num_train_steps", "steps")


def row_of(summary: RunSummary, run: str, *, metrics_left_out: int = 0) -> dict[str, Any]:
    """Return the row of *summary*, whose id is *run*; ``findings`` is None, since nothing has checked it."""
    start = summary.start
    settings = settings_of(start)
    name = start.get("name")
    return {
        "id": encodable(run),
        "run_id": cut(start["run_id"]) if isinstance(start.get("run_id"), str) else None,
        "name": cut(name) if isinstance(name, str) and name else cut(encodable(summary.name)),
        "group": cut(start["group"]) if isinstance(start.get("group"), str) else None,
        "tags": [cut(tag) for tag in _list(start.get("tags"))[:MOST_TAGS] if isinstance(tag, str)],
        "state": summary.state,
        "profile": summary.profile,
        "dialect": summary.dialect.name if summary.dialect is not None else None,
        "started": summary.started_at,
        "seconds": finite(summary.seconds),
        "steps": summary.last_step,
        "final_loss": finite(summary.final_loss),
        "reason": _reason(summary),
        "sealed": bool(summary.sealed),
        "progress": progress_of(summary.last_step, settings),
        "bytes": summary.extent.size,
        "findings": None,
        "config": dict(list(settings.items())[:MOST_SETTINGS]),
        "metrics": {cut(name): _metric(summary, name) for name in summary.series},
        "left_out": {"metrics": metrics_left_out, "config": max(0, len(settings) - MOST_SETTINGS)},
        "message": None,
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


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def cut(text: str) -> str:
    """Return *text*, cut where it is too long for a table."""
    return text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "…"
