"""Charts on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text
from textual.widget import Widget

from toyspec.core.command_line.tables import cut
from toyspec.core.escaping import shortened
from toyspec.view.charts import NO_PLACE, chart
from toyspec.view.screen.run_list import COLORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.view.charts import Cell, Scale
    from toyspec.view.drawn_curves import DrawnCurve

_MARKS = {"not-finite": "bold red", "gap": "red", "resume": "dim", "abandoned": "dim"}
_NAME_CHARS = 60


class Panel(NamedTuple):
    """One chart: a metric of several runs."""

    metric: str
    curves: Sequence[DrawnCurve]
    colors: Sequence[int]
    """The index of the colour of each curve."""
    names: Sequence[str] = ()
    """What to call the curves in the title."""


class ChartPane(Widget):
    """A chart of one metric."""

    DEFAULT_CSS = "ChartPane { height: 1fr; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._panel: Panel | None = None
        self._scale: Scale = "linear"
        self._axis = "step"
        self._note = ""

    def show(self, panel: Panel | None, *, scale: Scale, axis: str, note: str = "") -> None:
        """Show *panel*, or *note* where there is nothing to show."""
        self._panel, self._scale, self._axis, self._note = panel, scale, axis, note
        self.refresh()

    def render(self) -> Text:
        """Return the title, the chart and its axes."""
        panel = self._panel
        text = Text(no_wrap=True, overflow="crop")
        if panel is None:
            return text.append(cut(self._note, max(self.size.width, 1)), style="dim")
        text.append(cut(shortened(panel.metric, _NAME_CHARS), max(self.size.width, 1)), style="bold")
        for name, color in zip(panel.names, panel.colors, strict=False):
            text.append("  ").append(name, style=COLORS[color % len(COLORS)])
        text.truncate(max(self.size.width, 1), overflow="ellipsis")
        size = (self.size.width, max(self.size.height - 1, 3))
        made = chart(panel.curves, size, scale=self._scale, places=self._axis)
        if made is None:
            is_scale = self._scale == "log" and chart(panel.curves, size, places=self._axis) is not None
            said = NO_PLACE["log"] if is_scale else self._note or NO_PLACE["linear"]
            return text.append(f"\n{said}", style="dim")
        for label, row in zip(made.labels, made.rows, strict=True):
            text.append(f"\n{label} ┤", style="dim")
            for part, style in _parts(row, panel.colors):
                text.append(part, style=style)
        return text.append(f"\n{made.below}", style="dim")


def _parts(row: Sequence[Cell], colors: Sequence[int]) -> list[tuple[str, str]]:
    """Return the row as pieces of one style."""
    found: list[tuple[str, str]] = []
    for cell in row:
        style = _MARKS.get(cell.mark, "")
        if cell.curve is not None and not style:
            style = COLORS[colors[cell.curve] % len(COLORS)]
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + cell.text, style)
        else:
            found.append((cell.text, style))
    return found
