"""One run as a row of the table: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from toyspec.core.escaping import encodable
from toyspec.core.generated.runs import COLUMNS, RunState
from toyspec.core.runs.run_facts import RunFacts, cut, finite, unended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.reading.annotations import Annotations
    from toyspec.core.runs.run_facts import MetricFacts, RankState

MOST_SETTINGS = 100_000
MOST_METRICS = 1000
MOST_TAGS = 100


def row_of(facts: RunFacts, run: str, other_ranks: Sequence[int] = ()) -> dict[str, Any]:
    """Return the row of the run *facts* in the viewer, whose id is *run*; *other_ranks* have curves too.

    It has the first ``MOST_METRICS`` metrics and ``MOST_SETTINGS`` settings, and the number of the others.
    """
    settings, metrics = facts.settings or {}, facts.metrics or {}
    columns = {name: shown_fact(facts[name]) for name in ROW}
    more = {} if facts.alerts is None else {"alerts": facts.alerts, "open_alerts": facts.open_alerts}
    return {
        "id": encodable(run),
        **columns,
        **{key: _shown(facts[key]) for key in ("name", "tags", "group", "notes")},
        "profile": facts.profile if facts.dialect is None else None,
        "dialect": None if facts.dialect is None else facts.dialect.name,
        **({"said": {key: _shown(value) for key, value in facts.said.items()}} if facts.said else {}),
        **({"loss_not_finite": True} if facts.loss_not_finite else {}),
        **({"world_size": facts.world_size} if facts.world_size else {}),
        **_ranks(other_ranks, facts.unended_ranks),
        "config": dict(islice(settings.items(), MOST_SETTINGS)),
        "metrics": {cut(name): _metric(each) for name, each in islice(metrics.items(), MOST_METRICS)},
        "left_out": {
            "metrics": max(0, len(metrics) - MOST_METRICS) + facts.metrics_left_out,
            "config": max(0, len(settings) - MOST_SETTINGS),
        },
        "findings": facts.findings,
        **more,
        "message": None,
    }


def facts_of_row(row: Mapping[str, Any]) -> RunFacts:
    """Return the facts in a row of the viewer, as far as it has them: of a run that was not read yet, very few."""
    unknown = dict.fromkeys(COLUMNS) | {"tags": [], "starred": False, "hidden": False, "sealed": False}
    unknown |= {"read": "whole", "annotated": "said" in row}
    named = {"run": row["name"], "path": row["id"], "stream": row["id"], "settings": row.get("config", {})}
    own = {"profile": row.get("profile") or row.get("dialect"), "dialect": None, "ended": row.get("ended", "unknown")}
    state = {"state": row["state"] if row["state"] in get_args(RunState) else "torn"}
    return msgspec.convert({**unknown, **row, **named, **own, **state}, RunFacts)


def with_ranks(row: dict[str, Any], others: Sequence[RankState]) -> dict[str, Any]:
    """Return *row* with the ranks from 1 on as they are now, in place of those that were there when it was made."""
    kept = {name: value for name, value in row.items() if name not in ("other_ranks", "unended_ranks")}
    return kept | _ranks([each.rank for each in others], unended(others, row.get("world_size")))


def _ranks(others: Sequence[int], broken: Sequence[RankState]) -> dict[str, Any]:
    """Return the members of a row about ranks, which it has only where there are some."""
    found = {"other_ranks": list(others), "unended_ranks": [list(each) for each in broken]}
    return {name: value for name, value in found.items() if value}


def annotated(row: dict[str, Any], annotations: Annotations) -> dict[str, Any]:
    """Return *row* with what *annotations* say now, in place of what they said when it was made."""
    own: dict[str, Any] = {name: row[name] for name in ("name", "group", "tags", "notes")} | row.get("said", {})
    found = annotations.over(own)
    found |= {name: _shown(found[name]) for name in own}
    said = {name: value for name, value in own.items() if found[name] != value}
    rest = {name: value for name, value in row.items() if name != "said"}
    return rest | {"starred": False, "hidden": False} | found | ({"said": said} if said else {})


def _shown(value: Any) -> Any:
    """Return a text, or tags, as a row has them."""
    if isinstance(value, list):
        return [cut(encodable(tag)) for tag in value[:MOST_TAGS]]
    return None if value is None else cut(encodable(value))


ROW = tuple(name for name in COLUMNS if name not in ("run", "path", "profile", "tags", "name"))
"""The columns that a row has unchanged; ``profile`` and ``dialect`` are apart in it."""


def shown_fact(value: Any) -> Any:
    """Return a fact as JSON can hold it and a table shows it."""
    return cut(value) if isinstance(value, str) else finite(value) if isinstance(value, float) else value


def unreadable_row(run: str, message: str, size: int) -> dict[str, Any]:
    """Return the row of a run that could not be read."""
    known: dict[str, Any] = {"name": encodable(os.path.basename(run)), "state": "damaged", "ended": "unknown"}
    known |= dict.fromkeys(("sealed", "starred", "hidden"), False)
    return {
        "id": encodable(run), **dict.fromkeys((*ROW, "dialect", "profile", "findings")), **known, "tags": [],
        "bytes": size, "config": {}, "metrics": {}, "left_out": {"metrics": 0, "config": 0}, "message": message,
    }  # fmt: skip


def unread_row(run: str, size: int) -> dict[str, Any]:
    """Return the row of a run that was not read yet: what a search has found of it, and nothing else."""
    return {"id": encodable(run), "name": encodable(os.path.basename(run)), "bytes": size, "state": "unread"}


def _metric(facts: MetricFacts) -> dict[str, Any]:
    return {
        **{name: getattr(facts, name) for name in ("last", "best", "goal", "count", "nan")},
        **{name: True for name in ("last_not_finite", "constant") if getattr(facts, name)},
        **({"step_name": cut(facts.step_name)} if facts.step_name is not None else {}),
    }
