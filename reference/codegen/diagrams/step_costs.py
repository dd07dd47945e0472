"""Draws what one logged step costs the training loop, from the published figures of the benchmark."""

from __future__ import annotations

import math
from typing import NamedTuple

from codegen import sources
from codegen.diagrams.drawing import WIDTH, Box, Drawing

NAME = "step-costs"
_SOURCES = ("docs/assets/bench-loggers.json",)
_SHOWN = {
    "toyspec: CPU of the loop": "toyspec",
    "Trackio: CPU of the loop": "Trackio",
    "CSV of Lightning: CPU of the loop": "CSV, Lightning",
    "TensorBoard: CPU of the loop": "TensorBoard",
    "W&B, offline: CPU of the loop": "W&B, offline",
    "MLflow: CPU of the loop": "MLflow",
}
"""The figures that are shown, by their name in the benchmark, with what the picture calls them."""
_LEFT, _ROW, _BAR = 140.0, 24.0, 14.0
_WIDEST = WIDTH - _LEFT - 66


class Cost(NamedTuple):
    """What one step costs in one writer."""

    writer: str
    microseconds: float


def costs() -> list[Cost]:
    """Return the published costs, the cheapest first."""
    figures = {
        figure["name"]: figure["median"] for path in _SOURCES for figure in sources.load(sources.ROOT / path)["figures"]
    }
    found = [Cost(writer, figures[name]) for name, writer in _SHOWN.items()]
    return sorted(found, key=lambda cost: cost.microseconds)


def _figure(microseconds: float) -> str:
    """Return three digits, never an exponent: 6,890 and not 6.89e+03."""
    return f"{float(f'{microseconds:.3g}'):,g}"


def picture() -> dict[str, str]:
    """Return the picture by its name; the length of a bar is logarithmic, and the figure is beside it."""
    found = costs()
    said = ", ".join(f"{cost.writer} {_figure(cost.microseconds)} microseconds" for cost in found)
    drawing = Drawing(
        NAME, "Processor time that one logged step of five numbers takes from the training loop", f"{said}."
    )
    for index, cost in enumerate(found):
        top = 6 + _ROW * index
        width = _WIDEST * math.log10(cost.microseconds) / math.log10(found[-1].microseconds)
        is_ours = cost.writer == "toyspec"
        drawing.text(_LEFT - 8, top + 11, cost.writer, style="strong" if is_ours else "", anchor="end")
        drawing.box(Box(_LEFT, top, width, _BAR), style="good" if is_ours else "box", radius=2)
        drawing.text(_LEFT + width + 6, top + 11, f"{_figure(cost.microseconds)} µs", style="small")
    drawing.text(_LEFT, 6 + _ROW * len(found) + 8, "logarithmic scale; shorter is cheaper", style="small faint")
    return {NAME: drawing.svg()}
