"""``toyspec compare``: settings and results of several runs in one table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, add_profile, dialect_choice, runs_at
from toyspec.core.command_line.figures import cell, duration, figure, shown
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
    width,
    wrapped,
)
from toyspec.core.command_line.terminal import Terminal, columns, tell
from toyspec.core.errors import StreamError
from toyspec.core.escaping import printable, shortened
from toyspec.core.generated.runs import TITLES
from toyspec.core.places.addresses import public
from toyspec.core.runs.rows import distinct_names
from toyspec.core.runs.run_facts import MetricFacts, differing, flat, losses_first
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from toyspec.core.runs.run_facts import RunFacts
    from toyspec.core.runs.summary import RunSummary

# Members that differ in every run, or are the same in every run_start; a name is among the results.
_NO_SETTINGS = frozenset(["kind", "schema", "t", "run_id", "name", "started_at", "created_at", "schema_version"])
_NAME_CHARS = 40
_VALUE_COLUMNS = 28
_SHOWN_BEFORE = 4
_MOST_LISTED = 30
_MOST_HIDDEN_NAMED = 8

_DESCRIPTION = (
    "Compare runs: their results, the last and the best value of a metric, and the\n"
    "settings that differ. Each run is a column; on a terminal, those that do not fit\n"
    "are hidden.\n"
    "\n"
    "`toyspec view` and `toyspec plot` show curves of several runs, and\n"
    "`toyspec ls --full --json` prints every setting and metric of each."
)
_EXAMPLES = (
    "examples:\n"
    "  toyspec compare runs/llama-001 runs/llama-002\n"
    "  toyspec compare sweep/\n"
    "  toyspec compare --metric val/acc --metric lr runs/llama-*"
)


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec compare [OPTION…] RUN…"
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", type=public, help="runs, or directories with runs, also s3://…"
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="a metric: a field of the steps or their extra, a logged name, NAME/loss of an eval; may be repeated; "
        "default: loss, else one that all runs have",
    )
    add_profile(parser)
    add_dialect(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the comparison and return an exit code."""
    choice = dialect_choice(options)
    try:
        found = runs_at(options.runs, choice)
        if len(found) < 2:
            raise UsageError(f"at least two runs are needed, got {len(found)}; name them, or a directory with runs")
        runs = [summarize_run(each.place, watch=Progress("reading").watch, dialect=choice) for each in found]
    except StreamError as error:
        tell("compare", str(error))
        return exit_codes.USAGE
    facts = [each.facts for each in runs]
    metrics = [each.metrics or {} for each in facts]
    known = set().union(*metrics)
    if wrong := [name for name in options.metric if name not in known]:
        listed = some_of([shortened(name, _NAME_CHARS) for name in sorted(known)], _MOST_LISTED)
        raise UsageError(f"no run has the metric {shortened(wrong[0], _NAME_CHARS)!r}; choose one of: {listed}")
    usual = ["loss"] if "loss" in known else losses_first(set.intersection(*map(set, metrics)))[:1]
    rows = list(_results(facts))
    for name in options.metric or usual:
        rows += _metric(name, [each.get(name) for each in metrics])
    settings = list(_settings(runs))
    names = distinct_names([each.run for each in facts], [each.path for each in facts])
    table = [["", *cut_apart(list(map(shown, names)), _VALUE_COLUMNS)], *rows, *settings]
    _print_table(table, len(table) - len(settings), Terminal(color=options.color))
    return exit_codes.OK


def _results(runs: Sequence[RunFacts]) -> Iterator[list[str]]:
    """Yield the row of each result that a run has."""
    if any(each.name != each.run for each in runs):
        yield [TITLES["name"], *(figure(each.name) for each in runs)]
    yield [TITLES["state"], *(each.state_text for each in runs)]
    for name in ("reason", "error", "last_step", "final_loss", "seconds"):
        cells = [cell(each[name], duration if name == "seconds" else figure) for each in runs]
        if name == "final_loss":
            cells = [text or "null" * each.loss_not_finite for text, each in zip(cells, runs, strict=True)]
        if any(cells):
            yield [TITLES[name], *(cut(text, _VALUE_COLUMNS) for text in cells)]


def _metric(name: str, found: Sequence[MetricFacts | None]) -> Iterator[list[str]]:
    """Yield the last and the best values of a metric, each with its step."""
    each = [metric or MetricFacts() for metric in found]
    title = shortened(name, _NAME_CHARS)
    last = [(None if metric.last_not_finite else metric.last, metric.last_step) for metric in each]
    yield [f"last {title}", *(_at(value, step) for value, step in last)]
    best = [_at(metric.best, metric.best_step if metric.best is not None else None) for metric in each]
    if any(best):
        yield [f"best {title}", *best]


def _at(value: float | None, step: float | None) -> str:
    return "" if step is None else f"{figure(value)} at {figure(step)}"


def _settings(runs: Sequence[RunSummary]) -> Iterator[list[str]]:
    """Yield the settings that differ, in the order of the runs' first records; different values look different."""
    members = [dict(flat(each.start)) for each in runs]
    differ = differing(members) - _NO_SETTINGS
    for name in dict.fromkeys(name for each in members for name in each if name in differ):
        texts = [_text(each[name]) if name in each else "" for each in members]
        given = set(filter(None, texts))
        shared = len(os.path.commonprefix(list(given))) - _SHOWN_BEFORE  # noqa: RUF071 - not paths
        if len(given) > 1 and shared > 0 and max(map(width, texts)) > _VALUE_COLUMNS:
            texts = [text and f"…{text[shared:]}" for text in texts]
        yield [shortened(name, _NAME_CHARS), *cut_apart(texts, _VALUE_COLUMNS)]


def _text(value: Any) -> str:
    return printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _print_table(table: list[list[str]], results: int, terminal: Terminal) -> None:
    """Print *table*, in which the settings follow *results* rows; on a terminal the columns that fit."""
    hidden = fitted(table, columns(), range(len(table[0]) - 1, 1, -1)) if terminal.interactive else []
    kept = [[text for index, text in enumerate(row) if index not in hidden] for row in table]
    sides: list[Side] = ["left"]
    head, *lines = map(joined, lined_up(kept, sides + ["right"] * (len(kept[0]) - 1)))
    terminal.line(terminal.styled(head, "strong"))
    terminal.lines(lines[: results - 1])
    if lines[results - 1 :]:
        terminal.line(f"\n{terminal.styled('settings', 'dim')}")
        terminal.lines(lines[results - 1 :])
    if hidden:
        left_out = some_of([table[0][index] for index in hidden], _MOST_HIDDEN_NAMED)
        for text in wrapped(f"hidden for lack of room: {left_out}; a pipe gets all", columns(), "  "):
            terminal.line(terminal.styled(text, "dim"))
