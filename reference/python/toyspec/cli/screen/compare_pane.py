"""The comparison of runs on the screen: what does not fit is a key away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.widget import Widget

from toyspec.cli.columns import cut, cut_apart, cut_middle, padded, width
from toyspec.cli.screen.comparison import VALUE_COLUMNS, ComparedLine, compared
from toyspec.cli.screen.run_list import COLORS
from toyspec.escaping import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.cli.screen.comparison import ComparedCell

_NAME_COLUMNS = 28
_LEAST_COLUMNS = 8
_LOOKS = {"best": "bold green", "different": "yellow", "absent": "dim", "plain": ""}


class ComparePane(Widget):
    """A column for each run, and a line for each fact."""

    DEFAULT_CSS = "ComparePane { height: 1fr; display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[dict[str, Any]] = ()
        self._colors: Sequence[int | None] = ()
        self._lines: list[ComparedLine] = []
        self._top = 0
        self._first = 0

    def show(self, rows: Sequence[dict[str, Any]], colors: Sequence[int | None]) -> None:
        """Compare *rows*; *colors* are the indices of their colours, None for a run that is not selected."""
        self._rows, self._colors = rows, colors
        self._lines = compared(rows)
        self._first = min(self._first, max(len(rows) - 1, 0))
        self.refresh()

    def scroll_lines(self, by: int) -> None:
        """Move by *by* lines."""
        self._top += by
        self.refresh()

    def scroll_runs(self, by: int) -> None:
        """Move by *by* runs."""
        self._first = min(max(self._first + by, 0), max(len(self._rows) - 1, 0))
        self.refresh()

    def render(self) -> Text:
        """Return the names of the runs above the lines in sight."""
        text = Text(no_wrap=True, overflow="crop")
        if not self._rows:
            return text.append("no run to compare", style="dim")
        room = max(self.size.height - 1, 1)
        self._top = min(max(self._top, 0), max(len(self._lines) - room, 0))
        names = cut_apart([shortened(row["name"]) for row in self._rows], VALUE_COLUMNS)
        left = min(_NAME_COLUMNS, max(map(width, map(_title, self._lines))), max(self.size.width // 3, _LEAST_COLUMNS))
        columns = self._columns(names, self.size.width - left)
        is_all = len(columns) == len(names)
        place = "" if is_all else f"{self._first + 1} to {self._first + len(columns)} of {len(names)} runs"
        self._add_names(text.append(padded(cut(place, left), left), style="dim"), names, columns)
        for line in self._lines[self._top : self._top + room]:
            self._add(text.append("\n"), line, left, columns)
        return text

    def _columns(self, names: Sequence[str], room: int) -> list[int]:
        """Return the width of each column that fits, the first one in any case."""
        found: list[int] = []
        for at in range(self._first, len(self._rows)):
            cells = [line.cells[at].text for line in self._lines if line.cells]
            wide = max(width(names[at]) + 2, *map(width, cells)) + 2
            if found and sum(found) + wide > room:
                break
            found.append(wide)
        return found

    def _add_names(self, text: Text, names: Sequence[str], columns: Sequence[int]) -> None:
        for at, wide in enumerate(columns, self._first):
            color = self._colors[at]
            text.append("  ")
            text.append("  " if color is None else "● ", style="" if color is None else COLORS[color % len(COLORS)])
            text.append(padded(names[at], wide - 4), style="bold")

    def _add(self, text: Text, line: ComparedLine, left: int, columns: Sequence[int]) -> None:
        if not line.cells:
            text.append(cut(_title(line), max(self.size.width, 1)), style="dim")
            return
        name = cut_middle(line.name, max(left - len(line.note) - bool(line.note), _LEAST_COLUMNS))
        text.append(name).append(padded(f" {line.note}" if line.note else "", left - width(name)), style="dim")
        for at, wide in enumerate(columns, self._first):
            cell = line.cells[at]
            text.append("  ").append(padded(cell.text, wide - 2), style=_style(cell))


def _style(cell: ComparedCell) -> str:
    return cell.style if cell.look == "state" else _LOOKS[cell.look]


def _title(line: ComparedLine) -> str:
    return f"{line.name} {line.note}" if line.note else line.name
