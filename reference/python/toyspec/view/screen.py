"""The screen of ``toyspec watch``: the table of runs above the curves of one metric, live."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input, Static

from toyspec.core.command_line.exit_codes import INTERRUPTED, TERMINATED
from toyspec.core.command_line.figures import cell, counted, duration
from toyspec.core.command_line.run_tables import colored_as
from toyspec.core.command_line.tables import cut, padded, width
from toyspec.core.errors import ExpressionError, StreamError
from toyspec.core.escaping import printable, shortened
from toyspec.core.runs.columns import asks_for_hidden, meets
from toyspec.core.runs.expressions import expression
from toyspec.core.runs.names import cut_shared, names_among
from toyspec.core.runs.run_facts import by_rank
from toyspec.view.charts import NO_PLACE, chart, drawn_curve
from toyspec.view.rows import facts_of_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult
    from textual.events import Resize

    from toyspec.core.runs.expressions import Expression
    from toyspec.view.charts import Cell, DrawnCurve, Scale
    from toyspec.view.live_runs import LiveRuns

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
_MOST_METRICS = 500
_MARKS = {"not-finite": "bold red", "gap": "red", "resume": "dim", "abandoned": "dim"}
_METRIC_CHARS = 60
_POLL_SECONDS = 0.25
_BUCKETS = 400
_MOST_CURVES = 20
_NAME_COLUMNS = 24
_KEYS = "q quit  / filter  space select  esc clear  m metric  l log scale"


def end_of(row: dict[str, Any]) -> tuple[str, str]:
    """Return how a run ended and the style of that: a whole log of a run that went wrong is not green."""
    state, reason, facts = row["state"], row["reason"], facts_of_row(row)
    if reason in (None, "completed") or state in ("running", "torn"):
        return ", ".join([facts.state_text, *facts.warnings]), STATES.get(colored_as(state, facts.warnings), "")
    return facts.state_text, _ENDS.get(reason, _OTHER_END)


class RunList(Widget):
    """Rows of runs, one of them under the cursor, some of them selected."""

    DEFAULT_CSS = "RunList { height: 1fr; text-wrap: nowrap; text-overflow: clip; }"

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[dict[str, Any]] = ()
        self.names: dict[str, str] = {}
        """What each run is called, by its id."""
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
        titles = ["run", "state", "step", shortened(self.metric, _TITLE_COLUMNS), "best", "took", "left"]
        cells = [titles, *map(self._cells, rows)]
        widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
        names = cut_shared([row[0] for row in cells[1:]], max(self._left(widths), _LEAST_NAME_COLUMNS), width)
        widths[0] = max([3, *map(width, names)])
        # A narrow screen does without the last columns.
        while len(widths) > 2 and widths[0] > self._left(widths):
            widths.pop()
        text = Text(no_wrap=True, overflow="crop")
        for row, name, each in zip([None, *rows], ["run", *names], cells, strict=True):
            self._add(text, row, [padded(name, widths[0]), *map(_right, each[1:], widths[1:])])
        return text

    def _left(self, widths: Sequence[int]) -> int:
        return self.size.width - 2 - sum(each + 2 for each in widths[1:])

    def _add(self, text: Text, row: Row | None, cells: Sequence[str]) -> None:
        if row is None:
            text.append("  " + "  ".join(cells), style="dim")
            return
        color = self.selected.get(row["id"])
        line = Text("\n").append("  " if color is None else "● ", style=_color(color)).append(f"{cells[0]}  ")
        line.append(cells[1], style=end_of(row)[1]).append("".join(f"  {each}" for each in cells[2:]))
        if row is self.current:
            line.pad_right(max(self.size.width - line.cell_len + 1, 0))
            line.stylize("reverse", 1)
        text.append_text(line)

    def _cells(self, row: dict[str, Any]) -> list[str]:
        facts = row["metrics"].get(self.metric, {})
        return [
            shortened(self.names[row["id"]], _NAME_CHARS) + (" *" if row["starred"] else ""),
            end_of(row)[0],
            cell(row["last_step"]),
            # The one before a value that is not finite would look healthy.
            "not finite" if facts.get("last_not_finite") else cell(facts.get("last")),
            cell(facts.get("best")),
            cell(row["seconds"], duration),
            cell(row["remaining"] or None, duration),
        ]


def _color(index: int | None) -> str:
    return "" if index is None else COLORS[index % len(COLORS)]


def _right(cell: str, columns: int) -> str:
    return " " * (columns - width(cell)) + cell


def listed(rows: Iterable[Row], wanted: Expression) -> list[Row]:
    """Return those of *rows* that are *wanted*, the newest first, those without a time last.

    Hidden runs are left out, unless the filter asks for them.
    """
    with_hidden = asks_for_hidden(wanted)
    found = [row for row in rows if (with_hidden or not row["hidden"]) and meets(facts_of_row(row), [wanted])]
    return sorted(found, key=lambda row: row["started_at"] or "", reverse=True)


def metrics_of(rows: Iterable[Row]) -> list[str]:
    """Return the metrics of *rows*, losses first."""
    return by_rank({name for row in rows for name in row["metrics"]})[:_MOST_METRICS]


class Drawn(NamedTuple):
    """What a chart shows."""

    metric: str = ""
    curves: Sequence[DrawnCurve] = ()
    colors: Sequence[int] = ()
    """The index of the colour of each curve."""
    names: Sequence[str] = ()
    scale: Scale = "linear"
    note: str = ""
    """What is said where there is no curve."""


class ChartPane(Widget):
    """The chart of one metric of several runs."""

    DEFAULT_CSS = "ChartPane { height: 1fr; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.drawn = Drawn()

    def show(self, drawn: Drawn) -> None:
        """Show what is *drawn*."""
        self.drawn = drawn
        self.refresh()

    def render(self) -> Text:
        """Return the title, the chart and its axes."""
        text, drawn = Text(no_wrap=True, overflow="crop"), self.drawn
        if not drawn.curves:
            return text.append(cut(drawn.note, max(self.size.width, 1)), style="dim")
        text.append(shortened(drawn.metric, _METRIC_CHARS), style="bold")
        for name, color in zip(drawn.names, drawn.colors, strict=True):
            text.append("  ").append(name, style=_color(color))
        text.truncate(max(self.size.width, 1), overflow="ellipsis")
        size = (self.size.width, max(self.size.height - 1, 3))
        made = chart(drawn.curves, size, scale=drawn.scale)
        if made is None:
            is_scale = drawn.scale == "log" and chart(drawn.curves, size) is not None
            return text.append(f"\n{NO_PLACE['log' if is_scale else 'linear']}", style="dim")
        for label, row in zip(made.labels, made.rows, strict=True):
            text.append(f"\n{label} ┤", style="dim")
            for part, style in _parts(row, drawn.colors):
                text.append(part, style=style)
        return text.append(f"\n{made.below}", style="dim")


def _parts(row: Sequence[Cell], colors: Sequence[int]) -> list[tuple[str, str]]:
    """Return the row as pieces of one style."""

    def style_of(each: Cell) -> str:
        return _MARKS.get(each.mark) or _color(None if each.curve is None else colors[each.curve])

    return [("".join(each.text for each in part), style) for style, part in groupby(row, style_of)]


class Wanted(NamedTuple):
    """The curves in sight."""

    runs: tuple[str, ...] = ()
    metric: str = ""


class Snapshot(NamedTuple):
    """What is known at one time."""

    rows: dict[str, Row]
    """The row of each run, by its id."""
    curves: dict[str, DrawnCurve]
    """What is drawn of each run that was wanted."""
    wanted: Wanted


class SnapshotReader:
    """Reads the runs of a catalog in a thread of its own, and gives each new snapshot to *give*, in that thread."""

    def __init__(self, catalog: LiveRuns, give: Callable[[Snapshot], object]) -> None:
        self.wanted = Wanted()
        """The curves that come with the next snapshots; any thread may set it."""
        self._catalog = catalog
        self._give = give
        self._is_closed = threading.Event()
        self._rows: dict[str, Row] = {}
        self._revision: str | None = None
        self._thread = threading.Thread(target=self._run, name="toyspec-watch", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._is_closed.set()
        self._thread.join()

    def _run(self) -> None:
        seen: tuple[int, Wanted] | None = None
        while not self._is_closed.is_set():
            now = self._catalog.changes.number, self.wanted
            if now == seen:
                self._is_closed.wait(_POLL_SECONDS)
                continue
            seen = now
            self._read_rows()
            self._give(Snapshot(dict(self._rows), self._curves(now[1]), now[1]))

    def _read_rows(self) -> None:
        listing = self._catalog.listing(self._revision)
        if listing["complete"]:
            self._rows = {}
        for run in listing.get("removed", ()):
            self._rows.pop(run, None)
        self._rows |= {row["id"]: row for row in listing["runs"]}
        self._revision = listing["revision"]

    def _curves(self, wanted: Wanted) -> dict[str, DrawnCurve]:
        found = {}
        for run in wanted.runs:
            entry = self._catalog.entry(run)
            with suppress(StreamError, OSError):
                curves = None if entry is None else self._catalog.curves(entry, [wanted.metric])
                drawn = None if curves is None else drawn_curve(curves, wanted.metric, most=_BUCKETS)
                if drawn is not None and drawn.latest is not None:
                    found[run] = drawn
        return found


class WatchApp(App[int]):
    """Shows the runs of a catalog until the user quits; its return value is an exit code."""

    CSS = """
    Screen { overflow: hidden; }
    #top, #keys { height: 1; }
    #top { text-style: bold; }
    #keys { color: $text-muted; }
    Input { height: 1; border: none; padding: 0; display: none; }
    Input.open { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[Any]] = [
        Binding("q", "leave(0)", "quit"),
        Binding("ctrl+c", f"leave({INTERRUPTED})", "quit", priority=True),
        Binding("j,down", "move(1)", "down"),
        Binding("k,up", "move(-1)", "up"),
        Binding("pagedown", "move(10)", "page down"),
        Binding("pageup", "move(-10)", "page up"),
        Binding("home", "move(-1000000000)", "first"),
        Binding("end", "move(1000000000)", "last"),
        Binding("space", "select", "select"),
        Binding("escape", "clear", "clear", priority=True),
        Binding("m", "metric", "metric"),
        Binding("l", "log", "log scale"),
        Binding("slash", "filter", "filter"),
    ]

    def __init__(self, catalog: LiveRuns, root: str) -> None:
        """Show the runs of *catalog*, which was started; *root* is its name."""
        super().__init__()
        self.title = "toyspec watch"
        self._root = root
        self._live = SnapshotReader(catalog, self._take)
        self._snapshot = Snapshot({}, {}, Wanted())
        self._filter: Expression = expression("")
        self._refused = ""
        self._metric = ""
        self._scale: Scale = "linear"
        self._colors = 0

    def compose(self) -> ComposeResult:
        """Return the parts of the screen, from top to bottom."""
        yield Static(id="top", markup=False)
        yield RunList()
        yield ChartPane()
        yield Input(placeholder="lr < 1e-3 and val/acc > .7", select_on_focus=False)
        yield Static(_KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to read, and end cleanly at SIGTERM and SIGHUP."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            with suppress(NotImplementedError, AttributeError, ValueError, RuntimeError):
                loop.add_signal_handler(getattr(signal, name), self.exit, TERMINATED)
        self._live.start()
        self._update()

    def on_unmount(self) -> None:
        """Stop reading."""
        self._live.close()

    def on_resize(self, _: Resize) -> None:
        """Lay out everything for the new size, which the application takes after this call."""
        self.call_later(self._update)

    def _take(self, snapshot: Snapshot) -> None:
        """Take what the thread of the runs has read."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the screen has ended meanwhile
            self._loop.call_soon_threadsafe(self._show, snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        if self.is_running:
            self._snapshot = snapshot
            self._update()

    @property
    def _list(self) -> RunList:
        return self.query_one(RunList)

    def _runs_in_sight(self) -> list[str]:
        """Return the runs that are selected, else the one under the cursor."""
        selected = [run for run in self._list.selected if run in self._snapshot.rows]
        current = self._list.current
        return selected[:_MOST_CURVES] or ([] if current is None else [current["id"]])

    def _update(self) -> None:
        """Bring everything on the screen up to date, and ask for the curves that it lacks."""
        known = self._snapshot.rows
        rows = listed(known.values(), self._filter)
        if not self._metric and known:
            self._metric = next(iter(metrics_of(rows[:_MOST_CURVES])), "")
        names = names_among([row["name"] for row in known.values()], list(known))
        self._list.names = dict(zip(known, names, strict=True))
        self._list.show(rows, self._metric)
        self._list.styles.height = min(len(rows) + 1, max(self.size.height // 2, 4))
        runs = self._runs_in_sight()
        self._live.wanted = Wanted(tuple(runs), self._metric)
        self._update_chart(runs)
        self._update_top(len(rows))

    def _update_chart(self, runs: Sequence[str]) -> None:
        rows, wanted = self._snapshot.rows, self._snapshot.wanted
        drawn = [run for run in runs if wanted.metric == self._metric and run in self._snapshot.curves and run in rows]
        names = cut_shared([shortened(self._list.names[run]) for run in drawn], _NAME_COLUMNS, width)
        note = f"no values of {shortened(self._metric, 40)} here; m shows another metric" if rows else ""
        self.query_one(ChartPane).show(
            Drawn(
                self._metric,
                [self._snapshot.curves[run] for run in drawn],
                [self._list.selected.get(run, 0) for run in drawn],
                [name + self._rank_of(run) for name, run in zip(names, drawn, strict=True)],
                self._scale,
                note,
            )
        )

    def _rank_of(self, run: str) -> str:
        """Return which rank of a run with several is drawn."""
        others = len(self._snapshot.rows[run].get("other_ranks", ()))
        return f" rank 0 of {others + 1}" if others else ""

    def _update_top(self, shown: int) -> None:
        rows = self._snapshot.rows.values()
        running = sum(row["state"] == "running" for row in rows)
        parts = [f"toyspec watch {printable(self._root)}", counted(len(rows), "run")]
        parts += [f"{running} running"] if running else []
        parts += [f"{shown} listed"] if shown != len(rows) else []
        hidden = 0 if asks_for_hidden(self._filter) else sum(bool(row["hidden"]) for row in rows)
        parts += [f"{hidden} hidden"] if hidden else []
        parts += ["log"] if self._scale == "log" else []
        text = self._refused or "  ".join(parts)
        self.query_one("#top", Static).update(cut(text, max(self.size.width, 1)))

    # Keys.

    def action_leave(self, code: int) -> None:
        """End with *code*."""
        self.exit(code)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._list.move(by)
        self._update()

    def action_select(self) -> None:
        """Select the run under the cursor, or no longer, and go on to the next."""
        current = self._list.current
        if current is None:
            return
        if current["id"] in self._list.selected:
            del self._list.selected[current["id"]]
        else:
            self._list.selected[current["id"]] = self._colors
            self._colors += 1
        self.action_move(1)

    def action_clear(self) -> None:
        """Clear the filter that is open, else the selection."""
        field = self.query_one(Input)
        if field.has_class("open"):
            field.value = ""
            self._close_filter()
        else:
            self._list.selected.clear()
            self._colors = 0
        self._update()

    def action_metric(self) -> None:
        """Show the next metric of the runs in sight."""
        rows = self._snapshot.rows
        names = metrics_of(rows[run] for run in self._runs_in_sight() or list(rows)[:_MOST_CURVES])
        if names:
            at = names.index(self._metric) if self._metric in names else -1
            self._metric = names[(at + 1) % len(names)]
            self._update()

    def action_log(self) -> None:
        """Change between linear and log scale."""
        self._scale = "linear" if self._scale == "log" else "log"
        self._update()

    def action_filter(self) -> None:
        """Open the field of the filter."""
        field = self.query_one(Input)
        field.add_class("open")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the table as the user types; what cannot be read is reported, and the last filter stays."""
        try:
            self._filter = expression(event.value)
            self._refused = ""
        except ExpressionError as error:
            self._refused = f"filter: {error}"
        self._update()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Keep the filter and go back to the table."""
        self._close_filter()

    def _close_filter(self) -> None:
        field = self.query_one(Input)
        field.remove_class("open")
        self.set_focus(None)
