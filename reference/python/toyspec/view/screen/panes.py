"""The parts of the screen: the table of runs and its order, and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text
from textual.widget import Widget

from toyspec.core.command_line.figures import cell, duration, share
from toyspec.core.command_line.run_tables import colored_as
from toyspec.core.command_line.tables import cut, cut_apart, padded, width
from toyspec.core.escaping import shortened
from toyspec.core.findings import state_text
from toyspec.core.runs.columns import asks_for_hidden, in_order, meets
from toyspec.core.runs.rows import facts_of_row
from toyspec.core.runs.run_facts import losses_first
from toyspec.view.charts import NO_PLACE, chart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.core.runs.expressions import Expression
    from toyspec.view.charts import Cell, DrawnCurve, Scale

    Row = dict[str, Any]

COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red")
"""Colours of selected runs, which repeat."""
STATES = {"complete": "green", "running": "bold green", "torn": "yellow", "damaged": "bold red"}
"""Styles of the states of runs."""
_ENDS = {"completed": "green", "interrupted": "yellow"}
_OTHER_END = "bold red"
_NAME_CHARS = 200
_LEAST_NAME_COLUMNS = 12
_TITLE_COLUMNS = 16
_OF_SOME = frozenset(["done", "left", "alerts", "group"])
SORTS = ("started", "name", "best", "last", "steps", "state")
"""What the runs can be sorted by; ``best`` and ``last`` are of the metric that is shown."""
_MOST_METRICS = 500
_FACTS = {"started": "started_at", "steps": "last_step"}
"""The fact by which an order of another name sorts."""
_MARKS = {"not-finite": "bold red", "gap": "red", "resume": "dim", "abandoned": "dim"}
_METRIC_CHARS = 60


def end_of(row: dict[str, Any]) -> tuple[str, str]:
    """Return how a run ended and the style of that: a whole log of a run that went wrong is not green."""
    state, reason = row["state"], row["reason"]
    if reason in (None, "completed") or state in ("running", "torn"):
        text = state_text(state, row["ended"])
        warnings = facts_of_row(row).warnings
        return ", ".join([text, *warnings]), STATES.get(colored_as(state, warnings), "")
    text = shortened(reason, _TITLE_COLUMNS)
    return (text if state == "complete" else f"{text}, {state}"), _ENDS.get(reason, _OTHER_END)


class RunList(Widget):
    """Rows of runs, one of them under the cursor, some of them selected."""

    DEFAULT_CSS = "RunList { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[dict[str, Any]] = ()
        self.selected: dict[str, int] = {}
        """The index of the colour of each selected run, by its id."""
        self.metric = ""
        self.cursor = 0
        self._top = 0

    @property
    def current(self) -> dict[str, Any] | None:
        """The row under the cursor; None in an empty table."""
        return self.rows[self.cursor] if self.rows else None

    def show(self, rows: Sequence[dict[str, Any]], metric: str) -> None:
        """Show *rows*; the cursor stays on its run, if that is still there."""
        before = self.current
        self.rows, self.metric = rows, metric
        places = {row["id"]: at for at, row in enumerate(rows)}
        at = places.get(before["id"], self.cursor) if before else self.cursor
        self.cursor = min(max(at, 0), max(len(rows) - 1, 0))
        self.refresh()

    def move(self, by: int) -> None:
        """Move the cursor by *by* rows."""
        self.cursor = min(max(self.cursor + by, 0), max(len(self.rows) - 1, 0))
        self.refresh()

    def render(self) -> Text:
        """Return the title and the rows in sight."""
        room = max(self.size.height - 1, 1)
        self._top = min(max(self._top, self.cursor - room + 1), self.cursor)
        rows = self.rows[self._top : self._top + room]
        cells = _without_empty([self._titles(), *map(self._cells, rows)])
        widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
        hidden, whole = 0, [row[0] for row in cells[1:]]
        names = cut_apart(whole, self._left(widths, hidden))
        # A narrow screen does without the last columns. Names that would be alike are not cut.
        while len(widths) - hidden > 2 and max([_LEAST_NAME_COLUMNS, *map(width, names)]) > self._left(widths, hidden):
            hidden += 1
            names = cut_apart(whole, self._left(widths, hidden))
        kept = len(widths) - hidden
        text = Text(no_wrap=True, overflow="crop")
        name_width = max([3, *map(width, names)])
        for at, (name, each) in enumerate(zip(["run", *names], cells, strict=True)):
            self._add(text, rows[at - 1] if at else None, [padded(name, name_width), *each[1:kept]], widths)
        return text

    def _left(self, widths: Sequence[int], hidden: int) -> int:
        return self.size.width - 2 - sum(each + 2 for each in widths[1 : len(widths) - hidden])

    def _add(self, text: Text, row: dict[str, Any] | None, cells: Sequence[str], widths: Sequence[int]) -> None:
        if row is None:
            line = Text("  " + "  ".join([cells[0], *map(_right, cells[1:], widths[1:])]), style="dim")
            text.append_text(line)
            return
        color = self.selected.get(row["id"])
        mark = Text("● " if color is not None else "  ", style="" if color is None else COLORS[color % len(COLORS)])
        line = Text("\n").append_text(mark).append(cells[0]).append("  ")
        line.append(_right(cells[1], widths[1]), style=end_of(row)[1])
        line.append("".join(f"  {_right(cell, each)}" for cell, each in zip(cells[2:], widths[2:], strict=False)))
        if row is self.current:
            line.pad_right(max(self.size.width - line.cell_len + 1, 0))
            line.stylize("reverse", 1)
        text.append_text(line)

    def _titles(self) -> list[str]:
        return ["run", "state", "step", shortened(self.metric, _TITLE_COLUMNS), "best", "alerts", "took", "done",
                "left", "group"]  # fmt: skip

    def _cells(self, row: dict[str, Any]) -> list[str]:
        facts = row["metrics"].get(self.metric, {})
        return [
            shortened(row["name"], _NAME_CHARS) + (" *" if row["starred"] else ""),
            end_of(row)[0],
            cell(row["last_step"]),
            _last(facts),
            cell(facts.get("best")),
            _alerts(row),
            cell(row["seconds"], duration),
            cell(row["progress"], share),
            cell(row["remaining"] or None, duration),
            "" if row["group"] is None else shortened(row["group"], _TITLE_COLUMNS),
        ]


def _last(facts: dict[str, Any]) -> str:
    """Return the last value of a metric; one before a value that is not finite would look healthy."""
    if facts.get("last_not_finite"):
        return "not finite"
    return cell(facts.get("last"))


def _alerts(row: dict[str, Any]) -> str:
    """Return the number of incidents, and of those that have not ended; nothing where there are none."""
    if not row.get("alerts"):
        return ""
    return f"{row['alerts']}, {row['open_alerts']} open" if row["open_alerts"] else str(row["alerts"])


def _without_empty(cells: list[list[str]]) -> list[list[str]]:
    """Return *cells* without the columns of plans, alerts and groups where no run has one."""
    kept = [at for at, title in enumerate(cells[0]) if title not in _OF_SOME or any(row[at] for row in cells[1:])]
    return [[row[at] for at in kept] for row in cells]


def _right(cell: str, columns: int) -> str:
    return " " * (columns - width(cell)) + cell


def listed(rows: Iterable[Row], wanted: Expression, *, sort: str, metric: str) -> list[Row]:
    """Return those of *rows* that are *wanted*: the newest, best or longest first, those without a value last.

    Hidden runs are left out, unless the filter asks for them.
    """
    with_hidden = asks_for_hidden(wanted)
    found = [row for row in rows if (with_hidden or not row["hidden"]) and meets(facts_of_row(row), [wanted])]
    if sort == "name":
        return sorted(found, key=lambda row: (row["name"], row["id"]))
    facts: dict[str, Any] = next((row["metrics"][metric] for row in found if metric in row["metrics"]), {})
    is_ascending = sort == "state" or (sort in ("best", "last") and facts.get("goal") != "max")
    return in_order(found, lambda row: _key(row, sort, metric), reverse=not is_ascending)


def metrics_of(rows: Iterable[Row]) -> list[str]:
    """Return the metrics of *rows*, losses first."""
    return losses_first({name for row in rows for name in row["metrics"]})[:_MOST_METRICS]


def _key(row: Row, sort: str, metric: str) -> Any:
    return row["metrics"].get(metric, {}).get(sort) if sort in ("best", "last") else row[_FACTS.get(sort, sort)]


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
        text.append(cut(shortened(panel.metric, _METRIC_CHARS), max(self.size.width, 1)), style="bold")
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
    for each in row:
        style = _MARKS.get(each.mark, "")
        if each.curve is not None and not style:
            style = COLORS[colors[each.curve] % len(COLORS)]
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + each.text, style)
        else:
            found.append((each.text, style))
    return found
