"""The comparison of runs on the screen: what does not fit is a key away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.text import Text
from textual.widget import Widget

from toyspec.core.command_line.figures import cell, duration, figure
from toyspec.core.command_line.tables import cut, cut_apart, cut_middle, padded, width
from toyspec.core.escaping import shortened
from toyspec.core.runs.run_facts import differing, losses_first
from toyspec.view.screen.run_list import COLORS, end_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAME_COLUMNS = 28
_LEAST_COLUMNS = 8
_LOOKS = {"best": "bold green", "different": "yellow", "absent": "dim", "plain": ""}
Look = Literal["plain", "best", "different", "absent", "state"]
_NAME_CHARS = 200
VALUE_COLUMNS = 18
"""A longer value is cut in its middle."""
_ABSENT = "\N{EN DASH}"


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


class ComparedCell(NamedTuple):
    """One fact about one run."""

    text: str
    look: Look = "plain"
    style: str = ""
    """That of a state."""


class ComparedLine(NamedTuple):
    """One fact about all runs; a title without cells."""

    name: str
    note: str = ""
    cells: Sequence[ComparedCell] = ()


def compared(rows: Sequence[dict[str, Any]]) -> list[ComparedLine]:
    """Return the lines of the table of *rows*, which are rows of the catalog: results, metrics, then settings."""
    return [ComparedLine("results"), *_facts(rows), *_metrics(rows), *_settings(rows)]


def _facts(rows: Sequence[dict[str, Any]]) -> Iterator[ComparedLine]:
    yield ComparedLine("state", "", [ComparedCell(end_of(row)[0], "state", end_of(row)[1]) for row in rows])
    yield ComparedLine("took", "", [ComparedCell(cell(row["seconds"], duration)) for row in rows])
    yield ComparedLine("last step", "", [ComparedCell(cell(row["last_step"])) for row in rows])


def _metrics(rows: Sequence[dict[str, Any]]) -> Iterator[ComparedLine]:
    for name in losses_first({name for row in rows for name in row["metrics"]}):
        found = [row["metrics"].get(name) for row in rows]
        goal = next((facts["goal"] for facts in found if facts is not None and facts["goal"] is not None), None)
        values = [None if facts is None else _value(facts, goal) for facts in found]
        known = [value for value in values if value is not None]
        best = None if goal is None or len(known) < 2 else (min if goal == "min" else max)(known)
        note = "last" if goal is None else "lowest" if goal == "min" else "highest"
        yield ComparedLine(_shown(name), note, [_metric(value, best) for value in values])


def _value(facts: dict[str, Any], goal: str | None) -> float | None:
    best: float | None = facts["best"]
    last: float | None = facts["last"]
    return last if goal is None or best is None else best


def _metric(value: float | None, best: float | None) -> ComparedCell:
    if value is None:
        return ComparedCell("")
    return ComparedCell(f"{figure(value)} *", "best") if value == best else ComparedCell(figure(value))


def _settings(rows: Sequence[dict[str, Any]]) -> Iterator[ComparedLine]:
    names = dict.fromkeys(name for row in rows for name in row["config"])
    telling = differing([row["config"] for row in rows])
    different = [name for name in names if name in telling]
    yield ComparedLine("settings", f"{len(different)} of {len(names)} differ")
    for name in different:
        written = [_written(row["config"], name) for row in rows]
        usual = next((each for each in written if 2 * written.count(each) > len(rows)), None)
        looks: list[Look] = ["plain" if usual in (None, each) else "different" for each in written]
        values = [row["config"].get(name, _ABSENT) for row in rows]
        is_there = [name in row["config"] for row in rows]
        cells = [
            ComparedCell(cut_middle(figure(value), VALUE_COLUMNS), look) if there else ComparedCell(_ABSENT, "absent")
            for value, look, there in zip(values, looks, is_there, strict=True)
        ]
        yield ComparedLine(_shown(name), "", cells)


def _written(config: dict[str, Any], name: str) -> str:
    # Types are compared too: 1, 1.0 and true are three different settings.
    return repr(config[name]) if name in config else ""


def _shown(name: str) -> str:
    return shortened(name, _NAME_CHARS)
