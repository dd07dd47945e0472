"""``toyspec compare``: settings and curves of several runs in one table."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, add_profile, dialect_choice, runs_at
from toyspec.core.command_line.figures import duration, figure, shown
from toyspec.core.command_line.parsers import Parser, UsageError, add_color
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.tables import (
    Side,
    cut,
    cut_apart,
    fitted,
    joined,
    lined_up,
    some_of,
    wrapped,
)
from toyspec.core.command_line.terminal import Terminal, columns, tell
from toyspec.core.errors import StreamError
from toyspec.core.escaping import encodable, printable, shortened
from toyspec.core.generated.runs import COLUMNS, TITLES
from toyspec.core.places.addresses import public
from toyspec.core.runs.curves import common_steps, spread
from toyspec.core.runs.history import points_of
from toyspec.core.runs.rows import distinct_names
from toyspec.core.runs.run_facts import differing, flat, losses_first
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from toyspec.core.runs.summary import RunSummary

    Points = dict[int, float | None]
    """The values of a metric by step, in order."""

# Members that differ in every run, or are the same in every run_start; a name is among the results.
_NO_SETTINGS = frozenset(["kind", "schema", "t", "run_id", "name", "started_at", "created_at", "schema_version"])
_NAME_CHARS = 40
_VALUE_COLUMNS = 28
_SHOWN_BEFORE = 4
_DEFAULT_METRIC = "loss"
_MOST_POINTS = 10
_MOST_LISTED = 30
_MOST_HIDDEN_NAMED = 8

_DESCRIPTION = (
    "Compare runs: the settings that differ, the results, and a metric at the steps\n"
    "that all of them have. Each run is a column; on a terminal, those that do not\n"
    "fit are hidden.\n\n"
    "With --metric, the results have the metric at the last step at which each run\n"
    "has it, and that step. --json has every setting and common step, with each value\n"
    "as it is in the log."
)
_EXAMPLES = (
    "examples:\n"
    "  toyspec compare runs/llama-001 runs/llama-002\n"
    "  toyspec compare sweep/\n"
    "  toyspec compare --metric val/acc runs/llama-*\n"
    "  toyspec compare --metric grad_norm --json runs/llama-* | jq .points"
)


class ComparedRow(msgspec.Struct, frozen=True):
    """One fact about every run."""

    part: str
    """The heading above it."""
    name: str | int
    """A name, or the number of a step."""
    cells: list[Any]
    """The value in each run; UNSET where a run has none."""
    unit: Literal["plain", "seconds"] = "plain"


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec compare [OPTION…] RUN…"
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", type=public, help="runs, or directories with runs, also s3://…"
    )
    parser.add_argument("--all", action="store_true", help="show settings that are equal too")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="a metric: a field of the steps or their extra, a logged name, NAME/loss of an eval; "
        "default: loss, else one that all runs have",
    )
    parser.add_argument("--json", action="store_true", help="print an object: every setting and common step")
    add_profile(parser)
    add_dialect(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the comparison and return an exit code."""
    try:
        metric, runs, series = _read(options)
    except StreamError as error:
        tell("compare", str(error))
        return exit_codes.USAGE
    steps = common_steps(series)
    if options.json:
        _print_json(runs, metric, [*_points(metric, steps, series)])
        return exit_codes.OK
    differ = differing([dict(flat(each.start)) for each in runs])
    settings = [row for row in _settings(runs) if options.all or row.name in differ]
    points = list(_points(metric, spread(steps, _MOST_POINTS), series))
    terminal = Terminal(color=options.color)
    last = _last(metric, series) if options.metric else ()
    _print_table(runs, [*_results(runs, metric), *last, *settings, *points], terminal)
    others = _names_in_all(runs) - {metric}
    if not points:
        terminal.line(f"\nthe runs have no step in common with {shortened(metric, _NAME_CHARS)}")
    if others and (not points or metric != (options.metric or _DEFAULT_METRIC)):
        terminal.line(f"\nname another metric with --metric: {_listed(others)}")
    return exit_codes.OK


def _read(options: Namespace) -> tuple[str, list[RunSummary], list[Points]]:
    """Return the metric, the runs and its values: without --metric and a loss, a metric that all of them have."""
    choice = dialect_choice(options)
    found = runs_at(options.runs, choice)
    if len(found) < 2:
        raise UsageError(f"at least two runs are needed, got {len(found)}; name them, or a directory with runs")
    runs = [summarize_run(each.place, watch=Progress("reading").watch, dialect=choice) for each in found]
    metric = options.metric or _DEFAULT_METRIC
    series = [points_of(each, metric) for each in runs]
    if any(series):
        return metric, runs, series
    if options.metric:
        known = {name for each in runs for name in each.series}
        raise UsageError(f"no run has the metric {shortened(metric, _NAME_CHARS)!r}; choose one of: {_listed(known)}")
    common = losses_first(_names_in_all(runs))
    if not common:
        return metric, runs, series
    return common[0], runs, [points_of(each, common[0]) for each in runs]


def _names_in_all(runs: list[RunSummary]) -> set[str]:
    return set.intersection(*(set(each.series) for each in runs))


def _listed(names: set[str]) -> str:
    return some_of([shortened(name, _NAME_CHARS) for name in sorted(names)], _MOST_LISTED)


def _settings(runs: list[RunSummary]) -> Iterator[ComparedRow]:
    """Yield the settings in the runs' first records, in the order of the records."""
    members = [dict(flat(each.start)) for each in runs]
    names = dict.fromkeys(name for each in members for name in each)
    for name in names:
        if name not in _NO_SETTINGS:
            yield ComparedRow("settings", name, [each.get(name, msgspec.UNSET) for each in members])


def _results(runs: list[RunSummary], metric: str) -> Iterator[ComparedRow]:
    unset = msgspec.UNSET
    if any(each.facts.name != each.facts.run for each in runs):
        yield _fact("name", runs)
    yield ComparedRow("results", TITLES["state"], [each.facts.state_text for each in runs])
    if any(each.end for each in runs):
        yield _fact("reason", runs)
    if any(each.facts["error"] is not None for each in runs):
        yield _fact("error", runs)
    yield _fact("last_step", runs)
    if any(_has_loss(each) for each in runs):
        yield ComparedRow(
            "results", TITLES["final_loss"], [each.facts.final_loss if _has_loss(each) else unset for each in runs]
        )
        lowest = [each.loss.lowest if each.loss else None for each in runs]
        yield ComparedRow("results", "lowest loss", [unset if each is None else each[1] for each in lowest])
    if metric != _DEFAULT_METRIC:
        best = [each.best(metric) for each in runs]
        if any(best):
            yield ComparedRow("results", f"best {metric}", [unset if each is None else each[1] for each in best])
    if any(each.facts.seconds is not None for each in runs):
        yield _fact("seconds", runs)


def _has_loss(run: RunSummary) -> bool:
    return run.facts.final_loss is not None or run.facts.loss_not_finite


def _last(metric: str, series: list[Points]) -> Iterator[ComparedRow]:
    """Yield the last value of *metric* in each run, and the step that it is at."""
    last = [next(reversed(each.items()), None) for each in series]
    yield ComparedRow(
        "results",
        f"last {shortened(metric, _NAME_CHARS)}",
        [msgspec.UNSET if point is None else point[1] for point in last],
    )
    yield ComparedRow("results", "at step", [msgspec.UNSET if point is None else point[0] for point in last])


def _fact(name: str, runs: list[RunSummary]) -> ComparedRow:
    """Return the row of a column that every run has."""
    cells = [msgspec.UNSET if (value := each.facts[name]) is None else value for each in runs]
    return ComparedRow("results", TITLES[name], cells, unit="seconds" if COLUMNS[name].get("unit") == "s" else "plain")


def _points(metric: str, steps: list[int], series: list[Points]) -> Iterator[ComparedRow]:
    for step in steps:
        yield ComparedRow(metric, step, [each[step] for each in series])


def _names(runs: list[RunSummary]) -> list[str]:
    return distinct_names([each.facts.run for each in runs], [each.directory for each in runs])


def _print_table(runs: list[RunSummary], rows: list[ComparedRow], terminal: Terminal) -> None:
    """Print one column for each run; on a terminal those that fit, with the names of the others."""
    names = cut_apart([shown(name) for name in _names(runs)], _VALUE_COLUMNS)
    table = [["", *names], *map(_shown_row, rows)]
    hidden = fitted(table, columns(), range(len(runs), 1, -1)) if terminal.interactive else []
    kept = [[cell for index, cell in enumerate(row) if index not in hidden] for row in table]
    sides: list[Side] = ["left"]
    head, *lines = lined_up(kept, sides + ["right"] * (len(kept[0]) - 1))
    terminal.line(terminal.styled(joined(head), "strong"))
    part = rows[0].part
    for row, line in zip(rows, lines, strict=True):
        if row.part != part:
            part = row.part
            terminal.line(f"\n{terminal.styled(shortened(part, _NAME_CHARS), 'dim')}")
        terminal.line(joined(line))
    if hidden:
        left_out = some_of([table[0][index] for index in sorted(hidden)], _MOST_HIDDEN_NAMED)
        for text in wrapped(f"hidden for lack of room: {left_out}; --json has everything", columns(), "  "):
            terminal.line(terminal.styled(text, "dim"))


def _shown_row(row: ComparedRow) -> list[str]:
    name = f"step {row.name}" if isinstance(row.name, int) else shortened(row.name, _NAME_CHARS)
    show = duration if row.unit == "seconds" else figure
    cells = ["" if cell is msgspec.UNSET else cut(show(cell), _VALUE_COLUMNS) for cell in row.cells]
    whole = ["" if cell is msgspec.UNSET else _whole(cell) for cell in row.cells]
    if row.unit == "plain":
        cells = [_told_apart(at, cells, whole) for at in range(len(cells))]
    return [name, *cells]


def _told_apart(at: int, cells: list[str], whole: list[str]) -> str:
    """Return the cell *at*; if another value looks the same in its cell, what begins where the two differ."""
    alike = [text for cell, text in zip(cells, whole, strict=True) if cell == cells[at]]
    if len(set(alike)) == 1:
        return cells[at]
    begin = max(len(os.path.commonprefix(alike)) - _SHOWN_BEFORE, 0)  # noqa: RUF071 - texts, and not paths
    return cut(("…" if begin else "") + printable(whole[at][begin:]), _VALUE_COLUMNS)


def _whole(cell: Any) -> str:
    return msgspec.json.encode(cell).decode() if isinstance(cell, list | dict) else str(cell)


def _print_json(runs: list[RunSummary], metric: str, points: list[ComparedRow]) -> None:
    """Print what ``schemas/answers/v1/compare.json`` describes; null where a run has no value."""
    from toyspec.core.command_line.objects import inert_json

    settings = [{"name": row.name, **_cells_of(row)} for row in _settings(runs)]
    found = {
        "metric": metric,
        "runs": [{"path": encodable(each.directory), **_facts_of(each, metric)} for each in runs],
        "settings": settings,
        "points": [{"step": row.name, **_cells_of(row)} for row in points],
    }
    sys.stdout.write(inert_json(found) + "\n")


def _cells_of(row: ComparedRow) -> dict[str, Any]:
    """Return the values of *row*, one for each run, and which runs have one: null is a value too."""
    is_set = [cell is not msgspec.UNSET for cell in row.cells]
    values = [cell if known else None for cell, known in zip(row.cells, is_set, strict=True)]
    return {"values": values} if all(is_set) else {"values": values, "is_set": is_set}


def _facts_of(run: RunSummary, metric: str) -> dict[str, Any]:
    names = (
        "run",
        "run_id",
        "name",
        "state",
        "ended",
        "reason",
        "error",
        "first_step",
        "last_step",
        "progress",
        "remaining",
        "seconds",
    )
    best = run.best(metric)
    return {
        **{name: encodable(value) if isinstance(value := run.facts[name], str) else value for name in names},
        "final_loss": run.facts.final_loss,
        "lowest_loss": None if run.loss is None or run.loss.lowest is None else run.loss.lowest[1],
        "best": None if best is None else {"step": best[0], "value": best[1]},
    }
