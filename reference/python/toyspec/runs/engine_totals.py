"""Adds many records to a summary by the extremes of their metrics, which the compiled engine finds."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import toyspec_engine

    from toyspec.findings import Profile
    from toyspec.runs.summary import RunSummary


def take_extremes(
    summary: RunSummary,
    part: toyspec_engine.NumbersFields,
    profile: Profile,
    minimized: Mapping[str, bool] | None = None,
) -> None:
    """Add the records of *part* to *summary*, which then does not know the shape of their curves."""
    own = {name for name, *_ in part["metrics"]}
    names = dict(zip(own, summary.attempts.named(dict.fromkeys(own), part["phase"]), strict=True))
    before = {name: curve.count for name, curve in summary.series.items()}
    columns = {}
    for name, _, _, first, last, last_finite, lowest, highest in part["metrics"]:
        # The first of equal values is an extreme, so the order counts.
        known = [first, *(point for point in (lowest, highest) if point is not None)]
        known += [] if last_finite is None else [(last[0], last_finite)]
        known.append(last)
        columns[names[name]] = (array("q", [step for step, _ in known]), array("d", [value for _, value in known]))
    summary.take_places(profile, part["kinds"], part["times"], part["steps"], part["phase"])
    summary.take_columns(columns, minimized)
    for name, count, nulls, first, last, *_ in part["metrics"]:
        curve = summary.series.get(names[name])
        if curve is not None and curve.count > before.get(names[name], 0):
            curve.count += count - len(columns[names[name]][0])
            curve.not_finite += nulls - sum(value != value for _, value in (first, last))  # noqa: PLR0124 - NaN
