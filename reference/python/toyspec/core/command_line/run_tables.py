"""Runs as a table: text that fits the terminal, CSV, Markdown."""

from __future__ import annotations

import os
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line.figures import cell, duration, figure, share, shown, when
from toyspec.core.command_line.tables import Side, filled, fitted, joined, lined, wrapped, write_csv
from toyspec.core.command_line.terminal import Style, Terminal, columns
from toyspec.core.escaping import shortened
from toyspec.core.generated.runs import TITLES
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.runs.columns import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.core.generated.runs import RunState
    from toyspec.core.runs.run_facts import RunFacts

STATES: dict[RunState, Style] = {"complete": "good", "running": "good", "torn": "warning", "damaged": "error"}
"""The states of runs, the best first, each with its style."""

_SHOWN = ("run", "state", "reason", "last_step", "final_loss", "seconds", "started_at")
_TITLES = [TITLES[name] for name in _SHOWN]
_SIDES: tuple[Side, ...] = ("left", "left", "left", "right", "right", "right", "left")
# What a narrow terminal does without first.
_HIDDEN_FIRST = ("seconds", "reason", "started_at", "last_step")
_CSV_FACTS = _SHOWN[1:]
_BY_ENDS = "? only the start and end of a large stream were read; --full reads everything"


class ShownTable:
    """Rows of runs, with the usual columns and those that were asked for."""

    def __init__(
        self, runs: Sequence[RunFacts], roots: Sequence[str], more: Sequence[str] = (), *, left_out: int = 0
    ) -> None:
        """Show *runs*, found below *roots*, with the columns *more*; *left_out* is the number of runs not shown."""
        self._runs = runs
        self._root = common_root(roots)
        self._more = more
        self._left_out = left_out
        self._warnings = [each.warnings for each in runs]

    def print_text(self, terminal: Terminal) -> None:
        """Print the table; on a terminal no line is longer than it is wide."""
        titles = [*_TITLES, *(shortened(name) for name in self._more)]
        table = [list(column) for column in zip(titles, *self._rows(), strict=True)]
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
            states = [colored_as(*each) for each in zip((run.state for run in self._runs), self._warnings, strict=True)]
            cells[place][1:] = map(terminal.styled, cells[place][1:], map(STATES.__getitem__, states))
        return map(joined, zip(*cells, strict=True))

    def print_csv(self) -> None:
        """Print CSV: whole numbers, seconds, and times as the run gives them."""
        facts = (
            [_relative(each, self._root), *(_csv_cell(value_of(each, name)) for name in (*_CSV_FACTS, *self._more))]
            for each in self._runs
        )
        write_csv(sys.stdout, chain([["run", *_CSV_FACTS, *self._more]], facts))

    def print_markdown(self) -> None:
        """Print a Markdown table, in which the text of a log is text."""
        from toyspec.core.runs.markup import escaped, table_line

        lines = [table_line([*_TITLES, *map(escaped, self._more)])]
        rules = ["---:" if side == "right" else "---" for side in _SIDES]
        lines.append(table_line([*rules, *(["---:"] * len(self._more))]))
        lines += [table_line([escaped(cell) for cell in row]) for row in self._rows()]
        sys.stdout.write("\n".join(lines) + "\n")

    # A pipe gets the table alone; a program can ask for JSON, which has the same mark for each run.
    def _notes(self, hidden: Sequence[str]) -> list[str]:
        notes = [f"{len(self._runs)} of {len(self._runs) + self._left_out} runs"] if self._left_out else []
        notes += [f"hidden for lack of room: {', '.join(hidden)}; --csv and --md have every column"] if hidden else []
        return notes + ([_BY_ENDS] if any(each.read == "ends" for each in self._runs) else [])

    def _rows(self) -> list[list[str]]:
        """Return the cells for people, a list for each run."""
        return [self._row(facts, warnings) for facts, warnings in zip(self._runs, self._warnings, strict=True)]

    def _row(self, facts: RunFacts, warnings: Sequence[str]) -> list[str]:
        name = "" if facts.name == facts.run else f' "{shortened(facts.name)}"'
        state = f"{facts.state_text}{'?' if facts.read == 'ends' else ''}{', sealed' if facts.sealed else ''}"
        state += "" if facts.as_of is None else f", as of byte {facts.as_of:,}"
        return [
            shown(_relative(facts, self._root)) + name + (" *" if facts.starred else ""),
            ", ".join([state, *warnings]) + (_ahead(facts) if facts.state == "running" else ""),
            cell(facts.reason),
            cell(facts.last_step),
            figure(facts.final_loss) if facts.final_loss is not None or facts.loss_not_finite else "",
            cell(facts.seconds, duration),
            cell(facts.started_at, when),
            *(_cell(value_of(facts, name)) for name in self._more),
        ]


def colored_as(state: RunState, warnings: Sequence[str]) -> RunState:
    """Return the state by whose colour a run is shown: what has *warnings* is not green."""
    return "torn" if warnings and state in ("complete", "running") else state


def _ahead(facts: RunFacts) -> str:
    """Return how far a running run is, and how long it still takes, as far as that is known."""
    done = "" if facts.progress is None else f", {share(facts.progress)}"
    return done + (f", {duration(facts.remaining)} left" if facts.remaining else "")


def _droppable(more: int) -> list[int]:
    """Return the columns in the order of being hidden: the usual ones before the *more* that were asked for."""
    usual = [_SHOWN.index(name) for name in _HIDDEN_FIRST]
    asked = range(len(_SHOWN) + more - 1, len(_SHOWN) - 1, -1)
    return [*usual, *asked, _SHOWN.index("final_loss"), _SHOWN.index("state")]


def common_root(roots: Sequence[str]) -> str | None:
    """Return the beginning of the paths of runs that is not shown: that of a directory if it is the only root."""
    is_directory = len(roots) == 1 and (is_address(roots[0]) or os.path.isdir(roots[0]))
    return path_in(roots[0], "") if is_directory else None


def _relative(facts: RunFacts, root: str | None) -> str:
    """Return the path of a run from *root* if there is only one root, else its own path."""
    if root is None:
        return facts.path
    if facts.path.startswith(root):
        return facts.path[len(root) :]
    relative = os.path.relpath(facts.path, root)
    return facts.run if relative == "." else relative


def _cell(value: Any) -> str:
    """Return a value for people; tags are shown each."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return figure(", ".join(value))
    return cell(value)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if value is None or isinstance(value, str | int | float) else figure(value)
