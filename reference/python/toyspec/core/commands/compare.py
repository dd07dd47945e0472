"""``toyspec compare``: results of several runs, and the settings that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core import rooms
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice, runs_at
from toyspec.core.command_line.figures import counted, shown
from toyspec.core.command_line.parsers import Parser, UsageError, add_color
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.run_tables import fact_cell, print_table
from toyspec.core.command_line.tables import Side, cut, cut_apart, width
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.errors import ToyspecError
from toyspec.core.escaping import printable, shortened
from toyspec.core.generated.runs import TITLES
from toyspec.core.places.addresses import public
from toyspec.core.runs.names import cut_shared, names_of
from toyspec.core.runs.run_facts import differing, flat
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.run_facts import RunFacts
    from toyspec.core.runs.summary import RunSummary

# Members that differ in every run, or are the same in every run_start; a name is among the results.
_NO_SETTINGS = frozenset(["kind", "schema", "t", "run_id", "name", "started_at", "created_at", "schema_version"])
_NAME_CHARS = 40
_MOST_BYTES = 16 << 20
"""Of two runs together: beyond, their values are not compared without being asked for."""
_VALUE_COLUMNS = 28
_RESULTS = ("name", "state", "reason", "error", "last_step", "final_loss", "seconds")

DESCRIPTION = (
    "Compare runs: how they ended, and the settings that differ. Each run is a\n"
    "column; on a terminal, those that do not fit are hidden.\n"
    "\n"
    "`toyspec ls --columns val/acc,best.val/acc` lists metrics, `toyspec view` and\n"
    "`toyspec plot` show curves of several runs, and `toyspec ls --full --json`\n"
    "prints every setting and metric of each."
)
EPILOG = "examples:\n  toyspec compare runs/llama-001 runs/llama-002\n  toyspec compare sweep/"
USAGE = "toyspec compare [OPTION…] RUN…"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("runs", "RUN", "runs, or directories with runs, also s3://…", nargs="*", type=public)
    add_reading(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print the comparison and return an exit code."""
    choice = dialect_choice(options)
    found = runs_at(options.runs, choice)
    if len(found) < 2:
        raise UsageError(f"at least two runs are needed, got {len(found)}; name them, or a directory with runs")
    runs = [summarize_run(each.place, watch=Progress("reading").watch, dialect=choice) for each in found]
    facts = [each.facts for each in runs]
    names = names_of(facts)
    head = ["", *cut_shared(list(map(shown, names)), _VALUE_COLUMNS, width)]
    sides: list[Side] = ["left"]
    sides += ["right"] * len(runs)
    table = [head, *_results(facts, names), *_settings(runs)]
    terminal = Terminal(color=options.color)
    print_table(table, sides, terminal, droppable=range(len(runs), 1, -1))
    if len(facts) == 2:
        terminal.lines(_parting(facts, choice))
    return exit_codes.OK


def _parting(runs: Sequence[RunFacts], choice: DialectChoice) -> list[str]:
    """Return where two runs part, in a line; none for runs that have nothing in common."""
    a, b = (each.path for each in runs)
    more = f"`toyspec bisect {shown(a)} {shown(b)}`"
    if sum(each.bytes or 0 for each in runs) > _MOST_BYTES:
        return ["", f"{more} finds the first step at which they differ"]
    partings = rooms.expect_partings
    try:
        found = partings.compare_runs(a, b, tolerance=partings.Tolerance(), choice=choice)
    except ToyspecError:
        return []
    if not found.partings:
        return ["", f"no value differs: {counted(found.values, 'value')} of {counted(len(found.equal), 'metric')}"]
    first = found.partings[0]
    place = f" at step {first.step}" if first.step >= 0 else ""
    return ["", f"first differs{place}: {shortened(first.metric)}; {more} says more"]


def _results(runs: Sequence[RunFacts], names: Sequence[str]) -> Iterator[list[str]]:
    """Yield the row of each result that a run has."""
    for name in _RESULTS:
        # A name that is in the title is not written again.
        cells = [
            "" if name == "name" and each.name in (title, each.run) else fact_cell(each, name)
            for title, each in zip(names, runs, strict=True)
        ]
        if any(cells):
            yield [TITLES[name], *(cut(text, _VALUE_COLUMNS) for text in cells)]


def _settings(runs: Sequence[RunSummary]) -> Iterator[list[str]]:
    """Yield the settings that differ, in the order of the runs' first records; different values look different."""
    members = [dict(flat(each.start)) for each in runs]
    differ = differing(members) - _NO_SETTINGS
    for name in dict.fromkeys(name for each in members for name in each if name in differ):
        texts = [_text(each[name]) if name in each else "" for each in members]
        yield [shortened(name, _NAME_CHARS), *cut_apart(texts, _VALUE_COLUMNS)]


def _text(value: Any) -> str:
    return printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())
