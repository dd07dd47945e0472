"""Draws what a catalog costs as a function of the number of runs, from the published figures of ``nox -s scale``."""

from __future__ import annotations

import math
from typing import NamedTuple

from codegen import sources
from codegen.diagrams.drawing import WIDTH, Drawing

NAME = "catalog-scale"
_SOURCE = "docs/assets/bench-scale.json"
_SHOWN = {"one": "build", "some": "update of 1 %", "none": "update of none"}
"""The times that are shown, by their name in the data, with what the picture calls them."""
_LEFT, _TOP, _HEIGHT = 54.0, 12.0, 168.0
_RIGHT = WIDTH - 104
_DECADE = 10.0


class Curve(NamedTuple):
    """The seconds that something takes, by the number of runs."""

    name: str
    points: list[tuple[int, float]]


def curves() -> list[Curve]:
    """Return the published times, the longest first."""
    rows = sources.load(sources.ROOT / _SOURCE)["disk"]
    found = [Curve(name, [(row["runs"], row[key]) for row in rows]) for key, name in _SHOWN.items()]
    return sorted(found, key=lambda curve: -curve.points[-1][1])


def picture() -> dict[str, str]:
    """Return the picture by its name; both scales are logarithmic, and the last figure is beside its curve."""
    found = curves()
    counts = [count for count, _ in found[0].points]
    seconds = [each for curve in found for _, each in curve.points]
    low, high = (whole(math.log10(edge(seconds))) for whole, edge in ((math.floor, min), (math.ceil, max)))
    said = "; ".join(f"{curve.name} {_time(curve.points[-1][1])}" for curve in found)
    drawing = Drawing(
        NAME, "Time that a catalog takes, by the number of runs on disk", f"With {counts[-1]:,} runs: {said}."
    )

    def across(count: float) -> float:
        share = math.log10(count / counts[0]) / (math.log10(counts[-1] / counts[0]) or 1.0)
        return _LEFT + share * (_RIGHT - _LEFT)

    def down(value: float) -> float:
        return _TOP + _HEIGHT * (high - math.log10(value)) / (high - low)

    for power in range(low, high + 1):
        drawing.text(_LEFT - 8, down(_DECADE**power) + 4, _time(_DECADE**power), style="small faint", anchor="end")
    for count in counts:
        drawing.text(across(count), _TOP + _HEIGHT + 20, f"{count:,}", style="small faint", anchor="middle")
    label = 0.0
    for curve in found:
        drawing.line(" ".join(f"{across(count):.1f},{down(each):.1f}" for count, each in curve.points))
        # Labels of curves that end close together are moved apart.
        label = max(label + 26, down(curve.points[-1][1]))
        drawing.text(_RIGHT + 8, label, curve.name, style="small")
        drawing.text(_RIGHT + 8, label + 12, _time(curve.points[-1][1]), style="small faint")
    drawing.text(_LEFT, _TOP + _HEIGHT + 38, "runs on disk; both scales are logarithmic", style="small faint")
    return {NAME: drawing.svg()}


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
