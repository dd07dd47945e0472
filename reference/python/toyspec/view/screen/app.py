"""The screen of ``toyspec watch``: the table of runs above their curves, live."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from textual.app import App
from textual.binding import Binding
from textual.containers import Grid
from textual.widgets import Input, Static

from toyspec.core.command_line.exit_codes import INTERRUPTED, TERMINATED
from toyspec.core.command_line.figures import counted
from toyspec.core.command_line.tables import cut, cut_apart
from toyspec.core.errors import ExpressionError, StreamError
from toyspec.core.escaping import printable, shortened
from toyspec.core.runs.columns import asks_for_hidden
from toyspec.core.runs.expressions import expression
from toyspec.view.charts import drawn_curve
from toyspec.view.curve_frames import AXES
from toyspec.view.screen.panes import SORTS, ChartPane, Panel, RunList, listed, metrics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.events import Resize

    from toyspec.core.runs.expressions import Expression
    from toyspec.view.charts import DrawnCurve, Scale
    from toyspec.view.curve_frames import Axis
    from toyspec.view.live_runs import LiveRuns

View = Literal["runs", "charts"]

_POLL_SECONDS = 0.25
_BUCKETS = 400
_MOST_CURVES = 20
_MOST_PANELS = 6
_NAME_COLUMNS = 24
_KEYS = "? keys  q quit  / filter  s sort  space select  enter run  m metric"
_HELP = """\
j k ↑ ↓  move in the table            space   select the run
enter    charts of this run           ctrl+a  select all that are listed
esc      clear, close, go back        /       filter: lr < 1e-3 and acc > .7
1 2      runs, charts                 s S     sort by another column
m M      next, previous metric        l       log scale
x        step, time, epoch, tokens    q       quit

\N{MULTIPLICATION SIGN} not finite   ¦ unreadable line   ┊ resumed   dim: abandoned attempt"""
_HELP_LINES = _HELP.count("\n") + 1


class Wanted(NamedTuple):
    """The curves in sight."""

    runs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    axis: Axis = "step"


class Snapshot(NamedTuple):
    """What is known at one time."""

    rows: dict[str, dict[str, Any]]
    """The row of each run, by its id."""
    curves: dict[tuple[str, str], DrawnCurve]
    """What is drawn of each run and metric that was wanted."""
    wanted: Wanted


class SnapshotReader:
    """Reads the runs of a catalog in a thread of its own, and gives each new snapshot away."""

    def __init__(self, catalog: LiveRuns, give: Callable[[Snapshot], object]) -> None:
        """Give snapshots to *give*, which is called by the thread."""
        self._catalog = catalog
        self._give = give
        self._asked: queue.SimpleQueue[Wanted | None] = queue.SimpleQueue()
        self._rows: dict[str, dict[str, Any]] = {}
        self._revision: str | None = None
        self._thread = threading.Thread(target=self._run, name="toyspec-watch", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def ask(self, wanted: Wanted) -> None:
        """Ask for other curves; they come with one of the next snapshots."""
        self._asked.put(wanted)

    def close(self) -> None:
        """Stop reading."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        wanted, seen = Wanted(), -1
        self._catalog.count_alerts()
        while True:
            asked = self._next()
            if asked is None:
                return
            now = self._catalog.changes.number
            if now == seen and isinstance(asked, bool):
                continue
            seen = now
            wanted = wanted if isinstance(asked, bool) else asked
            self._read_rows()
            self._give(Snapshot(dict(self._rows), self._curves(wanted), wanted))

    def _next(self) -> Wanted | bool | None:
        """Return the last curves that were asked for; True if none were, None at the end."""
        found: Wanted | bool | None = True
        with suppress(queue.Empty):
            found = self._asked.get(timeout=_POLL_SECONDS)
            while found is not None:
                found = self._asked.get_nowait()
        return found

    def _read_rows(self) -> None:
        listing = self._catalog.listing(self._revision)
        if listing["complete"]:
            self._rows = {}
        for run in listing.get("removed", ()):
            self._rows.pop(run, None)
        self._rows |= {row["id"]: row for row in listing["runs"]}
        self._revision = listing["revision"]

    def _curves(self, wanted: Wanted) -> dict[tuple[str, str], DrawnCurve]:
        found: dict[tuple[str, str], DrawnCurve] = {}
        for run in wanted.runs:
            entry = self._catalog.entry(run)
            with suppress(StreamError, OSError):
                curves = None if entry is None else self._catalog.curves(entry)
                if curves is not None:
                    found |= {
                        (run, metric): drawn_curve(curves, metric, wanted.axis, _BUCKETS) for metric in wanted.metrics
                    }
        return found


class WatchApp(App[int]):
    """Shows the runs of a catalog until the user quits; its return value is an exit code."""

    CSS = """
    #top, #keys { height: 1; }
    #top { text-style: bold; }
    #keys { color: $text-muted; }
    #help { height: auto; display: none; }
    Input { height: 1; border: none; padding: 0; display: none; }
    Input.open, #help.open { display: block; }
    #charts { height: 1fr; grid-size: 1; grid-gutter: 0 2; }
    .charts RunList { display: none; }
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
        Binding("ctrl+a", "select_all", "select all", priority=True),
        Binding("enter", "open", "charts of this run"),
        Binding("escape", "close", "back", priority=True),
        Binding("1", "view('runs')", "runs"),
        Binding("2", "view('charts')", "charts"),
        Binding("m", "metric(1)", "next metric"),
        Binding("M", "metric(-1)", "previous metric"),
        Binding("l", "log", "log scale"),
        Binding("x", "axis", "x axis"),
        Binding("s", "sort(1)", "sort"),
        Binding("S", "sort(-1)", "sort"),
        Binding("slash", "filter", "filter"),
        Binding("question_mark", "help", "keys"),
    ]

    def __init__(self, catalog: LiveRuns, root: str) -> None:
        """Show the runs of *catalog*, which was started; *root* is its name."""
        super().__init__()
        self.title = "toyspec watch"
        self._root = root
        self._live = SnapshotReader(catalog, self._take)
        self._rows: dict[str, dict[str, Any]] = {}
        self._snapshot: Snapshot | None = None
        self._filter: Expression = expression("")
        self._refused = ""
        self._view: View = "runs"
        self._opened: str | None = None
        self._metric = ""
        self._scale: Scale = "linear"
        self._axis: Axis = "step"
        self._sort = "started"
        self._colors = 0

    def compose(self) -> ComposeResult:
        """Return the parts of the screen, from top to bottom."""
        yield Static(id="top", markup=False)
        yield RunList()
        yield Grid(*(ChartPane() for _ in range(_MOST_PANELS)), id="charts")
        yield Static(_HELP, id="help", markup=False)
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
        """Lay out the charts for the new size."""
        self._update()

    def _take(self, snapshot: Snapshot) -> None:
        """Take what the thread of the runs has read."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the screen has ended meanwhile
            self._loop.call_soon_threadsafe(self._show, snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        if not self.is_running:
            return
        self._rows, self._snapshot = snapshot.rows, snapshot
        self._update()

    # What is in sight.

    @property
    def _list(self) -> RunList:
        return self.query_one(RunList)

    def _listed(self) -> list[dict[str, Any]]:
        return listed(self._rows.values(), self._filter, sort=self._sort, metric=self._metric)

    def _metrics(self) -> list[str]:
        """Return the metrics of the runs in sight."""
        runs = self._runs_in_sight() or list(self._rows)[:_MOST_CURVES]
        return metrics_of(self._rows[run] for run in runs if run in self._rows)

    def _runs_in_sight(self) -> list[str]:
        """Return the run that was opened, else those that are selected, else the one under the cursor."""
        if self._opened is not None:
            return [self._opened]
        selected = [run for run in self._list.selected if run in self._rows]
        current = self._list.current
        return selected[:_MOST_CURVES] or ([] if current is None else [current["id"]])

    def _update(self) -> None:
        """Bring everything on the screen up to date, and ask for the curves that it lacks."""
        rows = self._listed()
        if not self._metric and self._rows:
            self._metric = next(iter(metrics_of(rows[:_MOST_CURVES])), "")
        self._list.show(rows, self._metric)
        room = self.size.height - (_HELP_LINES if self.query_one("#help").has_class("open") else 0)
        self._list.styles.height = min(len(rows) + 1, max(room // 2, 4))
        runs = self._runs_in_sight()
        metrics = self._shown_metrics()
        wanted = Wanted(tuple(runs), tuple(metrics), self._axis)
        if self._snapshot is None or wanted != self._snapshot.wanted:
            self._live.ask(wanted)
        self._update_charts(runs, metrics)
        self._update_top(len(rows))

    def _shown_metrics(self) -> list[str]:
        if self._view == "runs":
            return [self._metric]
        names = self._metrics()
        at = names.index(self._metric) if self._metric in names else 0
        room = _MOST_PANELS if self.size.width >= 120 else _MOST_PANELS // 2
        return names[at : at + room] or [self._metric]

    def _update_charts(self, runs: Sequence[str], metrics: Sequence[str]) -> None:
        grid = self.query_one("#charts", Grid)
        grid.styles.grid_size_columns = 1 if len(metrics) <= 2 or self.size.width < 120 else 2
        known = self._snapshot.curves if self._snapshot is not None else {}
        names = cut_apart([shortened(self._rows[run]["name"]) for run in runs if run in self._rows], _NAME_COLUMNS)
        if len(names) == len(runs):
            names = [name + self._rank_of(run, is_alone=len(runs) == 1) for name, run in zip(names, runs, strict=True)]
        for at, pane in enumerate(grid.query(ChartPane)):
            pane.display = at < len(metrics)
            if at >= len(metrics):
                continue
            found = [(index, known[run, metrics[at]]) for index, run in enumerate(runs) if (run, metrics[at]) in known]
            found = [(index, curve) for index, curve in found if curve.latest is not None]
            colors = [self._list.selected.get(runs[index], 0) for index, _ in found]
            titles = [names[index] for index, _ in found] if at == 0 and len(names) == len(runs) else []
            panel = Panel(metrics[at], [curve for _, curve in found], colors, titles) if found else None
            missing = (
                "" if not self._rows else f"no values of {shortened(metrics[at], 40)} here; m shows another metric"
            )
            pane.show(panel, scale=self._scale, axis=self._axis, note=missing)

    def _rank_of(self, run: str, *, is_alone: bool) -> str:
        """Return which rank of a run with several is drawn, and of a run that *is_alone* where the others are."""
        others = len(self._rows[run].get("other_ranks", ()))
        further = f"; {others} further: toyspec ranks, toyspec tail" if others and is_alone else ""
        return f" rank 0{further}" if others else ""

    def _update_top(self, shown: int) -> None:
        number = len(self._rows)
        running = sum(row["state"] == "running" for row in self._rows.values())
        parts = [f"toyspec watch {printable(self._root)}", counted(number, "run")]
        parts += [f"{running} running"] if running else []
        parts += [f"{shown} listed"] if shown != number else []
        hidden = 0 if asks_for_hidden(self._filter) else sum(bool(row["hidden"]) for row in self._rows.values())
        parts += [f"{hidden} hidden"] if hidden else []
        parts += [f"by {self._sort}"] + (["log"] if self._scale == "log" else [])
        text = self._refused or "  ".join(parts)
        self.query_one("#top", Static).update(cut(text, max(self.size.width, 1)))

    # Keys.

    def action_leave(self, code: int) -> None:
        """End, with *code*."""
        self.exit(code)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._list.move(by)
        self._update()

    def action_select(self) -> None:
        """Select the run under the cursor, or no longer."""
        current = self._list.current
        if current is None:
            return
        if current["id"] in self._list.selected:
            del self._list.selected[current["id"]]
        else:
            self._select(current["id"])
        self._list.move(1)
        self._update()

    def _select(self, run: str) -> None:
        self._list.selected[run] = self._colors
        self._colors += 1

    def action_select_all(self) -> None:
        """Select every run that is listed."""
        for row in self._list.rows:
            if row["id"] not in self._list.selected:
                self._select(row["id"])
        self._update()

    def action_open(self) -> None:
        """Show the charts of the run under the cursor."""
        if self._list.current is not None:
            self._opened = self._list.current["id"]
            self.action_view("charts")

    def action_close(self) -> None:
        """Close what is open: the filter, the help, a run, charts; else clear the selection."""
        field, help_ = self.query_one(Input), self.query_one("#help")
        if field.has_class("open"):
            field.value = ""
            self._close_filter()
        elif help_.has_class("open"):
            help_.remove_class("open")
        elif self._view != "runs":
            self.action_view("runs")
        else:
            self._list.selected.clear()
            self._colors = 0
        self._update()

    def action_view(self, view: View) -> None:
        """Show the table with a chart, or charts alone."""
        self._view = view
        self._opened = self._opened if view == "charts" else None
        self.screen.set_class(view == "charts", "charts")
        self._update()

    def action_metric(self, by: int) -> None:
        """Show another metric."""
        names = self._metrics()
        if names:
            at = names.index(self._metric) + by if self._metric in names else 0
            self._metric = names[at % len(names)]
            self._update()

    def action_log(self) -> None:
        """Change between linear and log scale."""
        self._scale = "linear" if self._scale == "log" else "log"
        self._update()

    def action_axis(self) -> None:
        """Change what curves are drawn over."""
        self._axis = AXES[(AXES.index(self._axis) + 1) % len(AXES)]
        self._update()

    def action_sort(self, by: int) -> None:
        """Sort by another column."""
        self._sort = SORTS[(SORTS.index(self._sort) + by) % len(SORTS)]
        self._update()

    def action_help(self) -> None:
        """Show or hide the keys."""
        self.query_one("#help").toggle_class("open")
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
