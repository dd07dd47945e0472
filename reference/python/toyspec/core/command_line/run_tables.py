"""Runs as a table of text that fits the terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from toyspec.core.command_line.figures import cell, counted, duration, figure, share, shown, when
from toyspec.core.command_line.tables import Side, filled, fitted, joined, some_of, wrapped
from toyspec.core.command_line.terminal import Style, Terminal, columns
from toyspec.core.escaping import shortened
from toyspec.core.findings import STARTS_AGAIN
from toyspec.core.generated.runs import TITLES
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.runs.columns import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.core.generated.runs import RunState
    from toyspec.core.runs.run_facts import RunFacts

STATES: dict[RunState, Style] = {"complete": "good", "running": "good", "torn": "warning", "damaged": "error"}
"""The states of runs, the best first, each with its style."""

_SHOWN: dict[str, Side] = {
    "run": "left", "state": "left", "reason": "left", "last_step": "right", "final_loss": "right", "seconds": "right",
    "started_at": "left",
}  # fmt: skip
# What a narrow terminal does without first, before the columns that were asked for; and what last.
_HIDDEN_FIRST = ("seconds", "reason", "started_at", "last_step")
_HIDDEN_LAST = ("final_loss", "state")
_FORMS: dict[str, Callable[[Any], str]] = {"seconds": duration, "started_at": when}
_MOST_HIDDEN_NAMED = 8
_BY_ENDS = "? only the start and end of a large stream were read; --full reads everything"


def print_runs(
    runs: Sequence[RunFacts], terminal: Terminal, *, roots: Sequence[str], more: Sequence[str] = (), left_out: int = 0
) -> None:
    """Print a row for each of *runs*, found below *roots*, with the columns *more*; no line is wider than a terminal.

    *left_out* is the number of runs not shown.
    """
    root = _common_root(roots)
    titles = [*(TITLES[name] for name in _SHOWN), *map(shortened, more)]
    rows = [titles, *(_row(facts, root, more) for facts in runs)]
    sides = list(_SHOWN.values())
    sides += ["right"] * len(more)
    styles: list[Style] = [STATES[colored_as(each.state, _troubles(each))] for each in runs]
    notes = [f"{len(runs)} of {len(runs) + left_out} runs"] if left_out else []
    notes += [_BY_ENDS] if any(each.read == "ends" for each in runs) else []
    print_table(rows, sides, terminal, droppable=_droppable(len(more)), styles=styles, notes=notes)


def print_table(  # noqa: PLR0913 - each says another thing of the table
    table: list[list[str]],
    sides: Sequence[Side],
    terminal: Terminal,
    *,
    droppable: Sequence[int] = (),
    styles: Sequence[Style] = (),
    notes: Sequence[str] = (),
) -> None:
    """Print *table*, whose first row has the titles.

    Those of *droppable* are hidden, in their order, while the table is wider than the terminal, and named after
    *notes*; without them its lines may be wider. *styles* are those of the cells
    in the second column.
    """
    # A pipe gets the table alone and whole; a program can ask for JSON, which has the same notes for each run.
    hidden = fitted(table, columns(), droppable) if terminal.interactive and droppable else []
    cells = {
        at: list(filled(column, side))
        for at, (column, side) in enumerate(zip(zip(*table, strict=True), sides, strict=True))
        if at not in hidden
    }
    if styles and 1 in cells:
        cells[1][1:] = map(terminal.styled, cells[1][1:], styles)
    head, *lines = map(joined, zip(*cells.values(), strict=True))
    terminal.line(terminal.styled(head, "dim"))
    terminal.lines(lines)
    if not terminal.interactive:
        return
    left_out = some_of([table[0][at] for at in hidden], _MOST_HIDDEN_NAMED)
    for note in [*notes, *([f"hidden for lack of room: {left_out}; a pipe gets every column"] if hidden else [])]:
        terminal.lines(terminal.styled(line, "dim") for line in wrapped(note, columns(), "  "))


def _row(facts: RunFacts, root: str | None, more: Sequence[str]) -> list[str]:
    name = "" if facts.name == facts.run else f' "{shortened(facts.name)}"'
    state = f"{facts.state_text}{'?' if facts.read == 'ends' else ''}{', sealed' if facts.sealed else ''}"
    kept = [counted(facts.earlier_logs, "earlier log")] if facts.earlier_logs else []
    kept += [f"{counted(facts.superseded_steps, 'step')} superseded"] if facts.superseded_steps else []
    notes = facts.dialect.notes if facts.dialect is not None else ()
    kept += ["steps start again"] if any(note.startswith(STARTS_AGAIN) for note in notes) else []
    remarks = [*facts.warnings, *kept]
    return [
        shown(_relative(facts, root)) + name + (" *" if facts.starred else ""),
        ", ".join([state, *remarks]) + (_ahead(facts) if facts.state == "running" else ""),
        *(fact_cell(facts, each) for each in _SHOWN if each not in ("run", "state")),
        *(_cell(value_of(facts, name)) for name in more),
    ]


def fact_cell(facts: RunFacts, name: str) -> str:
    """Return the fact *name* of a run for a person."""
    if name == "state":
        return facts.state_text
    if name == "final_loss" and facts.loss_not_finite:
        return figure(facts.final_loss)
    return cell(facts[name], _FORMS.get(name, figure))


def _troubles(facts: RunFacts) -> list[str]:
    return facts.warnings + [end for end in (facts.reason,) if end not in (None, "completed")]


def colored_as(state: RunState, warnings: Sequence[str]) -> RunState:
    """Return the state by whose colour a run is shown: what has *warnings* is not green."""
    return "torn" if warnings and state in ("complete", "running") else state


def _ahead(facts: RunFacts) -> str:
    """Return how far a running run is, and how long it still takes, as far as that is known."""
    done = "" if facts.progress is None else f", {share(facts.progress)}"
    return done + (f", {duration(facts.remaining)} left" if facts.remaining else "")


def _droppable(more: int) -> list[int]:
    """Return the columns in the order of being hidden: the usual ones before the *more* that were asked for."""
    usual = list(_SHOWN)
    asked = range(len(usual) + more - 1, len(usual) - 1, -1)
    return [*map(usual.index, _HIDDEN_FIRST), *asked, *map(usual.index, _HIDDEN_LAST)]


def _common_root(roots: Sequence[str]) -> str | None:
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
