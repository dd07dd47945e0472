"""``toyspec bisect``: the first step at which two runs part, and what differs before it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice
from toyspec.core.command_line.figures import cell, counted, shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, add_color, add_metrics, add_tolerance, number_from
from toyspec.core.command_line.run_tables import print_table
from toyspec.core.command_line.tables import Side, cut_apart, some_of
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.escaping import printable, shortened
from toyspec.core.places.addresses import public

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.expect.partings import Comparison, Parting

_MOST_ROWS = 20
_MOST_NAMES = 8
_MANY = 100_000
_VALUE_COLUMNS = 28
_LACKS = {"step": "has no such step", "metric": "has no such metric", "rank": "has no such rank"}

DESCRIPTION = """\
Find the first step at which two runs differ: which metric, in which lines, and
by how much. Then list what else differs before that step, in the order of time:
settings, seeds, data, code, versions, resumptions and alerts.

Values are equal if they are the same number, or a tolerance accepts them. A
step, metric or rank that only one run has is a difference too. Of steps that a
resumption repeated, the latest attempt counts. Metrics that measure time or the
machine are not compared, unless --metric names them.

With --noise, runs of the same program with other seeds, values are also equal
where they differ by at most six times what those runs differ by around that
step; `toyspec expect` compares means, and so sees less."""
EPILOG = """\
examples:
  toyspec bisect runs/before runs/after
  toyspec bisect --rtol 1e-5 runs/torch runs/jax
  toyspec bisect --metric '*loss' runs/a runs/b
  toyspec bisect --noise runs/seed-2 --noise runs/seed-3 runs/seed-1 runs/new

exit status: 0 if the runs are equal, 1 if they part, 2 if they cannot be
compared, or the command is wrong"""
USAGE = "toyspec bisect [OPTION…] A B"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("a", "A", "a run directory, or a stream, also s3://…", type=public)
    parser.value("b", "B", "the run to compare with it", type=public)
    add_tolerance(parser, "--rtol", 0.0, "relative difference that is accepted")
    add_tolerance(parser, "--atol", 0.0, "absolute difference that is accepted")
    parser.value(
        "--ulp",
        "N",
        "difference in units in the last place that is accepted; default: 0",
        type=number_from(0),
        default=0,
    )
    add_metrics(parser, "compare these metrics alone")
    parser.value(
        "--noise",
        "C",
        "a run of the program of A with another seed: what they differ by is accepted; may be repeated",
        action="append",
        default=[],
        type=public,
    )
    parser.flag("--json", "print the comparison as JSON")
    add_reading(parser)
    add_color(parser)


def run(options: Namespace) -> int:
    """Print where the runs part and return an exit code."""
    from toyspec.expect.partings import Tolerance, compare_runs

    found = compare_runs(
        options.a,
        options.b,
        tolerance=Tolerance(options.rtol, options.atol, options.ulp),
        globs=options.metric,
        noise=options.noise,
        choice=dialect_choice(options),
    )
    if options.json:
        sys.stdout.write(
            inert_json({"status": "parted" if found.partings else "equal", **msgspec.structs.asdict(found)}) + "\n"
        )
    else:
        _print(found, Terminal(color=options.color), len(options.noise))
    return exit_codes.FINDINGS if found.partings else exit_codes.OK


def _print(found: Comparison, terminal: Terminal, noisy: int) -> None:
    if not found.partings:
        within = f" within six times the noise of {counted(noisy, 'run')}" if noisy else ""
        print(f"equal{within}: {counted(found.values, 'value')} of {counted(len(found.equal), 'metric')}")
        _print_names(found)
        return
    first = found.partings[0]
    phase = f", {first.phase}" if first.phase else ""
    place = f" at step {first.step}" if first.step >= 0 else ""
    print(f"first differs{place}: {shortened(first.metric)} (rank {first.rank}{phase})")
    for title, side in (("A", first.a), ("B", first.b)):
        place = _LACKS[first.what] if side is None else f"{shown(side.file)}:{side.line}  {_exact(side.value)}"
        print(f"  {title}  {place}")
    if first.absolute is not None:
        units = f"{_units(first.ulp)} ulp of {first.bits} bits"
        print(f"  difference {first.absolute:.3g}, relative {first.relative:.3g}, {units}")
    _print_reasons(found, terminal)
    if len(found.partings) > 1:
        print("\nmetrics that differ, by their first step")
        rows = [["step", "metric", "A", "B", "relative", "ulp"], *map(_row, found.partings[:_MOST_ROWS])]
        sides: list[Side] = ["right", "left", "right", "right", "right", "right"]
        print_table(rows, sides, terminal)
        if len(found.partings) > _MOST_ROWS:
            print(f"and {len(found.partings) - _MOST_ROWS} more; --json lists all")
    if found.equal or found.not_compared:
        print()
        _print_names(found)


def _print_reasons(found: Comparison, terminal: Terminal) -> None:
    if not found.reasons:
        print(
            "\nnothing else differs before that step: settings, data, code and versions are equal, as far as recorded"
        )
        return
    print("\nwhat differs before that step, in the order of time")
    table = [["", "", "step", "A", "B", "lines"]]
    for each in found.reasons[:_MOST_ROWS]:
        values = cut_apart([cell(each.a, _exact), cell(each.b, _exact)], _VALUE_COLUMNS)
        lines = ", ".join(f"{name}:{line}" for name, line in (("A", each.line_a), ("B", each.line_b)) if line)
        table.append([each.what, shortened(each.name, 40), cell(each.step, _exact), *values, lines])
    print_table(table, ["left", "left", "right", "left", "left", "left"], terminal, droppable=[5])
    if len(found.reasons) > _MOST_ROWS:
        print(f"and {len(found.reasons) - _MOST_ROWS} more; --json lists all")


def _print_names(found: Comparison) -> None:
    for title, names in (("equal", found.equal if found.partings else []), ("not compared", found.not_compared)):
        if names:
            print(f"{title}: {some_of([shortened(name) for name in names], _MOST_NAMES)}")


def _row(parting: Parting) -> list[str]:
    values = [_LACKS[parting.what] if side is None else _exact(side.value) for side in (parting.a, parting.b)]
    relative = cell(parting.relative, lambda value: f"{value:.2g}")
    name = shortened(parting.metric) + (f" (rank {parting.rank})" if parting.rank else "")
    return [_exact(parting.step), name, *cut_apart(values, _VALUE_COLUMNS), relative, cell(parting.ulp, _units)]


def _units(ulp: int | None) -> str:
    return str(ulp) if ulp is None or ulp < _MANY else f"{ulp:.2g}"


def _exact(value: object) -> str:
    """Return a value for a person, a number with all its digits."""
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    return printable(value) if isinstance(value, str) else repr(value)
