"""Runs as a table: text that fits the terminal, CSV, Markdown."""

from __future__ import annotations

import os
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from toyspec.cli.columns import wrapped
from toyspec.cli.csv_cells import write_csv
from toyspec.cli.figures import duration, figure, when
from toyspec.cli.paths import shown
from toyspec.cli.tables import Side, fitted, joined, lined_up
from toyspec.cli.terminal import Style, Terminal, columns
from toyspec.escaping import shortened
from toyspec.places.addresses import is_address, path_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toyspec.catalog.listed_runs import ListedRun
    from toyspec.cli.csv_cells import Cell
    from toyspec.runs.columns import Fields
    from toyspec.runs.summary import RunState, RunSummary

STATES: dict[RunState, Style] = {"complete": "good", "running": "good", "torn": "warning", "damaged": "error"}
"""The states of runs, the best first, each with its style."""

_TITLES = ("run", "state", "end", "steps", "final loss", "took", "started")
_SIDES: tuple[Side, ...] = ("left", "left", "left", "right", "right", "right", "left")
# What a narrow terminal does without first.
_HIDDEN_FIRST = ("took", "end", "started", "steps")
_CSV_FACTS = ("state", "reason", "last_step", "final_loss", "seconds", "started_at")
_BY_ENDS = "? only the start and end of a large stream were read; --full reads everything"


class Rows(Protocol):
    """The runs of a table, in the order of its rows."""

    is_checked: bool
    """False if damage between the ends of a stream would not have been seen."""

    def __len__(self) -> int: ...

    def states(self) -> Sequence[RunState]:
        """Return the state of each run."""

    def cells(self) -> list[list[str]]:
        """Return the cells for people of each run."""

    def facts(self) -> Iterable[Sequence[Cell]]:
        """Return the cells of each run for a program."""


class RunTable:
    """Rows of runs, with the usual columns and those that were asked for."""

    def __init__(self, rows: Rows, more: Sequence[str] = (), *, left_out: int = 0) -> None:
        """Show *rows*, which have the columns *more* too; *left_out* is the number of runs not shown."""
        self._rows = rows
        self._more = more
        self._left_out = left_out

    def print_text(self, terminal: Terminal) -> None:
        """Print the table; on a terminal no line is longer than it is wide."""
        table = [[*_TITLES, *(shortened(name) for name in self._more)], *self._rows.cells()]
        sides: list[Side] = list(_SIDES)
        sides += ["right"] * len(self._more)
        notes: list[str] = []
        if terminal.interactive:
            hidden = fitted(table, columns(), _droppable(len(self._more)))
            notes = self._notes([table[0][index] for index in hidden])
            table = [[cell for index, cell in enumerate(row) if index not in hidden] for row in table]
            sides = [side for index, side in enumerate(sides) if index not in hidden]
        titles, *lines = lined_up(table, sides)
        terminal.line(terminal.styled(joined(titles), "dim"))
        for cells, state in zip(lines, self._rows.states(), strict=True):
            if terminal.colored and "state" in table[0]:
                cells[1] = terminal.styled(cells[1], STATES[state])
            terminal.line(joined(cells))
        for note in notes:
            for line in wrapped(note, columns(), "  "):
                terminal.line(terminal.styled(line, "dim"))

    def print_csv(self) -> None:
        """Print CSV: whole numbers, seconds, and times as the run gives them."""
        write_csv(sys.stdout, chain([["run", *_CSV_FACTS, *self._more]], self._rows.facts()))

    def print_markdown(self) -> None:
        """Print a Markdown table, in which the text of a log is text."""
        from toyspec.runs.markdown import escaped, table_line

        lines = [table_line([*_TITLES, *map(escaped, self._more)])]
        rules = ["---:" if side == "right" else "---" for side in _SIDES]
        lines.append(table_line([*rules, *(["---:"] * len(self._more))]))
        lines += [table_line([escaped(cell) for cell in row]) for row in self._rows.cells()]
        sys.stdout.write("\n".join(lines) + "\n")

    # A pipe gets the table alone; a program can ask for JSON, which has the same mark for each run.
    def _notes(self, hidden: Sequence[str]) -> list[str]:
        notes = [f"{len(self._rows)} of {len(self._rows) + self._left_out} runs"] if self._left_out else []
        notes += [f"hidden for lack of room: {', '.join(hidden)}; --csv and --md have every column"] if hidden else []
        return notes + ([] if self._rows.is_checked else [_BY_ENDS])


class RunRows:
    """The rows of runs with any columns."""

    def __init__(self, runs: Sequence[Fields], roots: Sequence[str], more: Sequence[str]) -> None:
        """Show *runs*, found below *roots*, with the columns *more*."""
        self._runs = runs
        self._more = more
        self._root = common_root(roots)
        self.is_checked = all(each.run.extent.is_checked for each in runs)

    def __len__(self) -> int:
        return len(self._runs)

    def states(self) -> Sequence[RunState]:
        """See Rows."""
        return [each.run.state for each in self._runs]

    def cells(self) -> list[list[str]]:
        """See Rows."""
        return list(map(self._row, self._runs))

    def facts(self) -> Iterable[Sequence[Cell]]:
        """See Rows."""
        for each in self._runs:
            values = (each.value(name) for name in (*_CSV_FACTS, *self._more))
            yield [_relative(each.run, self._root), *map(_csv_cell, values)]

    def _row(self, fields: Fields) -> list[str]:
        run = fields.run
        reason = run.reason
        state = run.state if run.extent.is_checked else f"{run.state}?"
        values = [fields.value(name) for name in self._more]
        return [
            shown(_relative(run, self._root)),
            state + (", sealed" if run.sealed else ""),
            figure(reason) if isinstance(reason, str) else "",
            "" if run.last_step is None else figure(run.last_step),
            figure(run.final_loss) if run.says_final_loss else "",
            "" if run.seconds is None else duration(run.seconds),
            "" if run.started_at is None else when(run.started_at),
            *("" if value is None else figure(value) for value in values),
        ]


class ListedRows:
    """The rows of a whole catalog, made a column at a time: it has many, whose cells are mostly alike."""

    is_checked = True

    def __init__(self, runs: Sequence[ListedRun], roots: Sequence[str]) -> None:
        """Show *runs*, found below *roots*."""
        self._runs = runs
        self._root = common_root(roots)

    def __len__(self) -> int:
        return len(self._runs)

    def states(self) -> Sequence[RunState]:
        """See Rows."""
        return [run.state for run in self._runs]

    def cells(self) -> list[list[str]]:
        """See Rows."""
        if not self._runs:
            return []
        runs = self._runs
        columns = (
            _each(shown, self._names()),
            _each(lambda pair: pair[0] + (", sealed" if pair[1] else ""), [(run.state, run.sealed) for run in runs]),
            _each(figure, [run.reason for run in runs]),
            _each(figure, [run.last_step for run in runs]),
            ["" if not run.says_final_loss else figure(run.final_loss) for run in runs],
            _each(duration, [run.seconds for run in runs]),
            _each(when, [run.started_at for run in runs]),
        )
        return list(map(list, zip(*columns, strict=True)))

    def facts(self) -> Iterable[Sequence[Cell]]:
        """See Rows."""
        for path, run in zip(self._names(), self._runs, strict=True):
            yield path, run.state, run.reason, run.last_step, run.final_loss, run.seconds, run.started_at

    def _names(self) -> list[str]:
        return [_relative(run, self._root) for run in self._runs]


def _each(form: Callable[[Any], str], values: Sequence[Any]) -> list[str]:
    """Return the text of each value, empty for None; equal values have one."""
    known = {value: "" if value is None else form(value) for value in set(values)}
    return list(map(known.__getitem__, values))


def _droppable(more: int) -> list[int]:
    """Return the columns in the order of being hidden: the usual ones before the *more* that were asked for."""
    usual = [_TITLES.index(title) for title in _HIDDEN_FIRST]
    asked = range(len(_TITLES) + more - 1, len(_TITLES) - 1, -1)
    return [*usual, *asked, _TITLES.index("final loss"), _TITLES.index("state")]


def common_root(roots: Sequence[str]) -> str | None:
    """Return the beginning of the paths of runs that is not shown: that of a directory if it is the only root."""
    is_directory = len(roots) == 1 and (is_address(roots[0]) or os.path.isdir(roots[0]))
    return path_in(roots[0], "") if is_directory else None


def _relative(run: RunSummary | ListedRun, root: str | None) -> str:
    """Return the path of the run's directory from *root* if there is only one root, else its own path."""
    directory = run.directory
    if root is None:
        return directory
    if directory.startswith(root):
        return directory[len(root) :]
    relative = os.path.relpath(directory, root)
    return run.name if relative == "." else relative


def _csv_cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else figure(value)
