"""Which runs the table of the screen lists, in which order, and which metrics they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.runs.columns import field_of, text_of
from toyspec.runs.expressions import Question
from toyspec.runs.metric_names import losses_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.runs.expressions import Expression

    Row = dict[str, Any]

SORTS = ("started", "name", "best", "last", "steps", "state")
"""What the runs can be sorted by; ``best`` and ``last`` are of the metric that is shown."""

_MOST_METRICS = 500


_FACTS = {"started": "started_at", "steps": "last_step"}
"""The fact by which an order of another name sorts."""


def listed(rows: Iterable[Row], wanted: Expression, *, sort: str, metric: str) -> list[Row]:
    """Return those of *rows* that are *wanted*: the newest, best or longest first, those without a value last.

    Hidden runs are left out, unless the filter asks for them.
    """
    with_hidden = shows_hidden(wanted)
    found = [row for row in rows if (with_hidden or not row["hidden"]) and wanted.holds(_question(row))]
    if sort == "name":
        return sorted(found, key=lambda row: (row["name"], row["id"]))
    keyed = [(_key(row, sort, metric), row) for row in found]
    facts: dict[str, Any] = next((row["metrics"][metric] for row in found if metric in row["metrics"]), {})
    is_ascending = sort == "state" or (sort in ("best", "last") and facts.get("goal") != "max")
    known = [pair for pair in keyed if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=not is_ascending)
    return [row for _, row in known] + [row for key, row in keyed if key is None]


def shows_hidden(wanted: Expression) -> bool:
    """Return whether a filter asks about hidden runs, which are left out and counted otherwise."""
    return "hidden" in wanted.fields


def metrics_of(rows: Iterable[Row]) -> list[str]:
    """Return the metrics of *rows*, losses first."""
    return losses_first({name for row in rows for name in row["metrics"]})[:_MOST_METRICS]


def _key(row: Row, sort: str, metric: str) -> Any:
    return row["metrics"].get(metric, {}).get(sort) if sort in ("best", "last") else row[_FACTS.get(sort, sort)]


def _question(row: Row) -> Question:
    return Question(lambda name: field_of(row, name), lambda: text_of(row))
