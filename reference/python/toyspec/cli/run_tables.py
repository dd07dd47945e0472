"""Runs as a table: text that fits the terminal, CSV, Markdown."""

from __future__ import annotations

import os
import sys
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Protocol

from toyspec.cli.columns import wrapped
from toyspec.cli.figures import cell, duration, figure, share, when
from toyspec.cli.paths import shown
from toyspec.cli.tables import Side, filled, fitted, joined, lined, write_csv
from toyspec.cli.terminal import Style, Terminal, columns
from toyspec.escaping import shortened
from toyspec.findings import state_text
from toyspec.generated.runs import TITLES
from toyspec.places.addresses import is_address, path_in
from toyspec.runs.run_facts import warnings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toyspec.catalog.run_table import RunColumns
    from toyspec.cli.tables import Cell
    from toyspec.runs.columns import Fields
    from toyspec.runs.summary import RunState, RunSummary

STATES: dict[RunState, Style] = {"complete": "good", "running": "good", "torn": "warning", "damaged": "error"}
"""The states of runs, the best first, each with its style."""

_SHOWN = ("run", "state", "reason", "last_step", "final_loss", "seconds", "started_at")
_TITLES = [TITLES[name] for name in _SHOWN]
_SIDES: tuple[Side, ...] = ("left", "left", "left", "right", "right", "right", "left")
# What a narrow terminal does without first.
_HIDDEN_FIRST = ("seconds", "reason", "started_at", "last_step")
_CSV_FACTS = _SHOWN[1:]
_BY_ENDS = "? only the start and end of a large stream were read; --full reads everything"


class TableRows(Protocol):
    """The runs of a table, in the order of its rows."""

    is_checked: bool
    """False if damage between the ends of a stream would not have been seen."""

    def __len__(self) -> int: ...

    def states(self) -> Sequence[RunState]:
        """Return the state of each run."""

    def columns(self) -> list[list[str]]:
        """Return the cells for people, a list for each column."""

    def facts(self) -> Iterable[Sequence[Cell]]:
        """Return the cells of each run for a program."""


class ShownTable:
    """Rows of runs, with the usual columns and those that were asked for."""

    def __init__(self, rows: TableRows, more: Sequence[str] = (), *, left_out: int = 0) -> None:
        """Show *rows*, which have the columns *more* too; *left_out* is the number of runs not shown."""
        self._rows = rows
        self._more = more
        self._left_out = left_out

    def print_text(self, terminal: Terminal) -> None:
        """Print the table; on a terminal no line is longer than it is wide."""
        titles = [*_TITLES, *(shortened(name) for name in self._more)]
        table = [[title, *cells] for title, cells in zip(titles, self._rows.columns(), strict=True)]
        sides: list[Side] = list(_SIDES)
        sides += ["right"] * len(self._more)
        notes: list[str] = []
        if terminal.interactive:
            rows = list(map(list, zip(*table, strict=True)))
            hidden = fitted(rows, columns(), _droppable(len(self._more)))
            notes = self._notes([titles[index] for index in hidden])
            kept = [index for index in range(len(titles)) if index not in hidden]
            table = [[row[index] for row in rows] for index in kept]
            titles, sides = [titles[index] for index in kept], [sides[index] for index in kept]
        lines = self._colored(table, sides, terminal) if terminal.colored else lined(table, sides)
        terminal.line(terminal.styled(next(lines), "dim"))
        terminal.lines(lines)
        for note in notes:
            for line in wrapped(note, columns(), "  "):
                terminal.line(terminal.styled(line, "dim"))

    def _colored(self, table: list[list[str]], sides: Sequence[Side], terminal: Terminal) -> Iterator[str]:
        """Yield the lines of a table that is given by its columns, with each state in its colour."""
        cells = list(map(list, map(filled, table, sides)))
        place = next((index for index, column in enumerate(table) if column[0] == "state" and index), None)
        if place is not None:
            styles = map(STATES.__getitem__, self._rows.states())
            cells[place][1:] = map(terminal.styled, cells[place][1:], styles)
        return map(joined, zip(*cells, strict=True))

    def print_csv(self) -> None:
        """Print CSV: whole numbers, seconds, and times as the run gives them."""
        write_csv(sys.stdout, chain([["run", *_CSV_FACTS, *self._more]], self._rows.facts()))

    def print_markdown(self) -> None:
        """Print a Markdown table, in which the text of a log is text."""
        from toyspec.runs.markdown import escaped, table_line

        lines = [table_line([*_TITLES, *map(escaped, self._more)])]
        rules = ["---:" if side == "right" else "---" for side in _SIDES]
        lines.append(table_line([*rules, *(["---:"] * len(self._more))]))
        rows = zip(*self._rows.columns(), strict=True)
        lines += [table_line([escaped(cell) for cell in row]) for row in rows]
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
        # Imported here: the table of a catalog needs nothing that reads a run.
        from toyspec.runs.rank_states import warnings_in

        self._warnings = {id(each.run): warnings_in(each.run) for each in runs}

    def __len__(self) -> int:
        return len(self._runs)

    def states(self) -> Sequence[RunState]:
        """See Rows."""
        return [colored_as(each.run.state, self._warnings[id(each.run)]) for each in self._runs]

    def columns(self) -> list[list[str]]:
        """See Rows."""
        return list(map(list, zip(*map(self._row, self._runs), strict=True)))

    def facts(self) -> Iterable[Sequence[Cell]]:
        """See Rows."""
        for each in self._runs:
            values = (each.value(name) for name in (*_CSV_FACTS, *self._more))
            yield [_relative(each.run.directory, each.run.name, self._root), *map(_csv_cell, values)]

    def _row(self, fields: Fields) -> list[str]:
        run = fields.run
        reason = run.reason
        state = run.facts.state_text if run.extent.is_checked else f"{run.facts.state_text}?"
        values = [fields.value(name) for name in self._more]
        return [
            _labelled(
                shown(_relative(run.directory, run.name, self._root)),
                None if run.facts.name == run.facts.run else run.facts.name,
                run.annotations.starred,
            ),
            ", ".join([_marked(state, sealed=run.sealed, as_of=run.as_of), *self._warnings[id(run)]])
            + (_ahead(run) if run.state == "running" else ""),
            figure(reason) if isinstance(reason, str) else "",
            cell(run.last_step),
            figure(run.final_loss) if run.says_final_loss else "",
            cell(run.seconds, duration),
            cell(run.started_at, when),
            *map(_cell, values),
        ]


class ListedRows:
    """The rows of a whole catalog, made a column at a time: it has many, whose cells are mostly alike."""

    is_checked = True

    def __init__(self, runs: RunColumns, roots: Sequence[str]) -> None:
        """Show *runs*, found below *roots*."""
        self._runs = runs
        self._root = common_root(roots)

    def __len__(self) -> int:
        return len(self._runs.path)

    def states(self) -> Sequence[RunState]:
        """See Rows."""
        return list(map(colored_as, self._runs.state, self._warnings()))

    def columns(self) -> list[list[str]]:
        """See Rows."""
        runs = self._runs
        texts = map(state_text, runs.state, runs.ended)
        states = zip(texts, runs.sealed, runs.as_of, strict=True)
        losses = zip(runs.final_loss, runs.says_final_loss, strict=True)
        more = (list(map(_cell, values)) for values in runs.more.values())
        return [
            list(map(_labelled, _shown(self._names()), runs.given_name, runs.starred)),
            [
                ", ".join([_marked(state, sealed=sealed, as_of=as_of), *warnings])
                for (state, sealed, as_of), warnings in zip(states, self._warnings(), strict=True)
            ],
            _each(figure, [reason if isinstance(reason, str) else None for reason in runs.reason]),
            _each(figure, runs.last_step),
            # A call for each would take as long as all the rest.
            [f"{loss:.6g}" if type(loss) is float else figure(loss) if says else "" for loss, says in losses],
            _each(duration, runs.seconds),
            _each(when, runs.started_at),
            *more,
        ]

    def facts(self) -> Iterable[Sequence[Cell]]:
        """See Rows."""
        runs = self._runs
        more = (list(map(_csv_cell, values)) for values in runs.more.values())
        reasons = map(_csv_cell, runs.reason)
        usual = (runs.state, reasons, runs.last_step, runs.final_loss, runs.seconds, runs.started_at)
        return zip(self._names(), *usual, *more, strict=True)

    def _warnings(self) -> Iterator[list[str]]:
        """Yield the warnings of each run."""
        runs = self._runs
        facts = zip(runs.final_loss, runs.says_final_loss, runs.unended_ranks, strict=True)
        return (warnings_of(ranks or (), is_loss_not_finite=says and loss is None) for loss, says, ranks in facts)

    def _names(self) -> list[str]:
        paths, root = self._runs.path, self._root
        if root is None:
            return paths
        if all(map(str.startswith, paths, repeat(root))):
            return [path.removeprefix(root) for path in paths]
        return [_relative(path, name or path, root) for path, name in zip(paths, self._runs.name, strict=True)]


def colored_as(state: RunState, warnings: Sequence[str]) -> RunState:
    """Return the state by whose colour a run is shown: what has *warnings* is not green."""
    return "torn" if warnings and state in ("complete", "running") else state


def _marked(state: str, *, sealed: bool, as_of: int | None) -> str:
    """Return a state with what a person should know of it."""
    return state + (", sealed" if sealed else "") + ("" if as_of is None else f", as of byte {as_of:,}")


def _ahead(run: RunSummary) -> str:
    """Return how far a running run is, and how long it still takes, as far as that is known."""
    progress, remaining = run.facts.progress, run.facts.remaining
    done = "" if progress is None else f", {share(progress)}"
    return done + (f", {duration(remaining)} left" if remaining else "")


def _labelled(path: str, name: str | None, is_starred: bool) -> str:
    """Return the *path* of a run with its *name*, where it has another one, and a star."""
    return path + ("" if name is None else f' "{shortened(name)}"') + (" *" if is_starred else "")


def _shown(names: list[str]) -> list[str]:
    """Return *names* for a person."""
    whole = "".join(names)
    if whole.isascii() and whole.isprintable() and "./" not in whole:
        return names
    return list(map(shown, names))


def _each(form: Callable[[Any], str], values: Sequence[Any]) -> list[str]:
    """Return the text of each value, empty for None; equal values have one."""
    known = {value: cell(value, form) for value in set(values)}
    return list(map(known.__getitem__, values))


def _droppable(more: int) -> list[int]:
    """Return the columns in the order of being hidden: the usual ones before the *more* that were asked for."""
    usual = [_SHOWN.index(name) for name in _HIDDEN_FIRST]
    asked = range(len(_SHOWN) + more - 1, len(_SHOWN) - 1, -1)
    return [*usual, *asked, _SHOWN.index("final_loss"), _SHOWN.index("state")]


def common_root(roots: Sequence[str]) -> str | None:
    """Return the beginning of the paths of runs that is not shown: that of a directory if it is the only root."""
    is_directory = len(roots) == 1 and (is_address(roots[0]) or os.path.isdir(roots[0]))
    return path_in(roots[0], "") if is_directory else None


def _relative(directory: str, name: str, root: str | None) -> str:
    """Return the path of the *directory* of the run *name* from *root* if there is only one root, else its own path."""
    if root is None:
        return directory
    if directory.startswith(root):
        return directory[len(root) :]
    relative = os.path.relpath(directory, root)
    return name if relative == "." else relative


def _cell(value: Any) -> str:
    """Return a value for people; tags are shown each."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return figure(", ".join(value))
    return cell(value)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if value is None or isinstance(value, str | int | float) else figure(value)
