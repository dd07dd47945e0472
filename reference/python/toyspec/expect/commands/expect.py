"""``toyspec expect``: what runs are expected to log, and whether a run does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice
from toyspec.core.command_line.figures import cell, counted, figure, shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import (
    Parser,
    UsageError,
    add_color,
    add_metrics,
    add_tolerance,
    local_path,
    number_from,
)
from toyspec.core.command_line.run_tables import print_table
from toyspec.core.command_line.tables import some_of
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.escaping import printable, shortened
from toyspec.core.places.addresses import public

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from typing import Any

    from toyspec.expect.bands import Departure, Expectation

_MOST_ROWS = 20
_MOST_NAMES = 8
_MARKS = {"above": "▲", "below": "▼", "missing": "?", "not finite": "!"}

DESCRIPTION = """\
Write what runs are expected to log, and check in CI that a new run logs it.

  write RUN…          make bands for each metric, and list the settings
  check RUN FILE      compare a run with the bands and settings of FILE

From several runs, such as five seeds, a band is as wide as they differ; from
one run, as --rtol, --atol and --range say. The file is a few kB of JSON with a
line for each band; edit it where you know better. Seeds are not among its
settings.

presets:
  curve        means of the whole run, its halves, quarters, eighths and
               sixteenths (default)
  exact        the value of each step, up to 1,000 of them
  steps        the value of 40 steps, or of --steps, within 5 %
  final        the mean of the last sixteenth, or a better one
  performance  times, sizes and rates, and @seconds of the whole run: the median
               after the first tenth, within 10 %, or a better one"""
EPILOG = """\
examples:
  toyspec expect write runs/seed-1 runs/seed-2 runs/seed-3 -o golden.json
  toyspec expect write --preset performance runs/seed-1 -o speed.json
  toyspec expect write --steps 1,10,100 --rtol 1e-3 runs/seed-1 -o golden.json
  toyspec expect check runs/new golden.json
  toyspec expect check --format github runs/new golden.json

exit status: 0 if the run is as expected, or the file is written, 1 if the run
is not as expected, 2 if the command is wrong, or a path cannot be read"""
USAGE = "toyspec expect [OPTION…] write|check RUN… [FILE]"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.is_intermixed = True
    parser.add_argument("action", choices=("write", "check"), help="what to do")
    parser.value("places", "RUN|FILE", "runs; with check, the file last", nargs="*", type=public)
    parser.value("-o --output", "FILE", "with write: the file; default: standard output", type=local_path)
    parser.add_argument(
        "--preset",
        choices=("curve", "exact", "steps", "final", "performance"),
        default="curve",
        help="with write: which bands; default: curve",
    )
    add_tolerance(parser, "--rtol", None, "with write, of one run: share of the value")
    add_tolerance(parser, "--atol", None, "with write, of one run: absolute difference")
    add_tolerance(parser, "--range", None, "with write, of one run: share of the range of values in the window")
    parser.value("--steps", "N[,N…]", "with write: a band for the value of each of these steps alone", type=_steps)
    add_metrics(parser, "with write: bands for these metrics alone")
    parser.add_argument(
        "--at-least",
        action="store_true",
        default=None,
        help="with write: accept better values too, of metrics with a goal: a loss, or as the run defines it",
    )
    parser.add_argument(
        "--format",
        choices=("text", "github", "markdown"),
        default="text",
        help="with check: text, annotations of a GitHub workflow, or a summary in Markdown; default: text",
    )
    parser.flag("--json", "print the result as JSON")
    add_reading(parser)
    add_color(parser)


def _steps(text: str) -> tuple[int, ...]:
    return tuple(map(number_from(0), text.split(",")))


def run(options: Namespace) -> int:
    """Write or check and return an exit code."""
    return _write(options) if options.action == "write" else _check(options)


def _write(options: Namespace) -> int:
    from toyspec.core.directories import write_output
    from toyspec.expect.bands import expectation_of, shape_of, written

    if not options.places:
        raise UsageError("name the runs that the expectation is made of")
    changes = {"rtol": options.rtol, "atol": options.atol, "share": options.range}
    shape = shape_of(options.preset, windows=options.steps, at_least=options.at_least, **changes)
    made = expectation_of(options.places, shape=shape, globs=options.metric, choice=dialect_choice(options))
    data = written(made)
    if options.output is None:
        text = data.decode("ascii", "backslashreplace")
    else:
        text = f"{shown(options.output)}: bands of {counted(len(made.metrics), 'metric')} and "
        text += f"{counted(len(made.settings), 'setting')} of {counted(len(made.runs), 'run')}, {len(data)} bytes\n"
        try:
            write_output(options.output, data)
        except OSError as error:
            raise UsageError(f"{options.output}: {error.strerror or error}") from None
    sys.stdout.write(inert_json(made) + "\n" if options.json else text)
    return exit_codes.OK


def _check(options: Namespace) -> int:
    from toyspec.expect.bands import departures, read_expectation

    if len(options.places) != 2:
        raise UsageError(f"check needs a run and a file, got {len(options.places)}")
    run, path = options.places
    expected = read_expectation(path)
    stream, found = departures(run, expected, choice=dialect_choice(options))
    if options.json:
        answer = {"status": "differs" if found else "as expected", "run": stream, "expected": path, "departures": found}
        sys.stdout.write(inert_json(answer) + "\n")
    else:
        print_departures(stream, expected, found, options.format, Terminal(color=options.color))
    return exit_codes.FINDINGS if found else exit_codes.OK


def print_departures(
    run: str, expected: Expectation, found: Sequence[Departure], form: str, terminal: Terminal
) -> None:
    """Print where *run* is not as *expected*: as text, as annotations of a workflow, or in Markdown."""
    if form == "github":
        _print_annotations(run, found)
    names = some_of(list(dict.fromkeys(shortened(each.name) for each in found)), _MOST_NAMES)
    counts = f"{counted(len(expected.metrics), 'metric')} and {counted(len(expected.settings), 'setting')}"
    sentence = f"{shown(run)} is {f'not as expected: {names}' if found else f'as expected: {counts}'}"
    print(f"### {'❌' if found else '✅'} {_markdown(sentence)}\n" if form == "markdown" else sentence)
    if not found or form == "github":
        return
    rows = [["", "", "steps", "expected", "found", "line", "windows"]]
    told = list(_longest(found))
    rows += [
        [
            *(each.what, shortened(each.name), each.place, figure(each.expected), cell(each.found, figure)),
            *(cell(each.line, str), f"{count}, from step {first}" if count > 1 else ""),
        ]
        for each, count, first in told[:_MOST_ROWS]
    ]
    if form == "markdown":
        rows[1:1] = [["---"] * len(rows[0])]
        print("\n".join("| " + " | ".join(map(_markdown, each)) + " |" for each in rows))
    else:
        print_table(rows, ["left", "left", "right", "left", "left", "right", "left"], terminal, droppable=[5])
    if len(told) > _MOST_ROWS:
        print(f"\nand {len(told) - _MOST_ROWS} more; --json lists all")
    if form == "markdown":
        _print_pictures(expected, found)


def _longest(found: Sequence[Departure]) -> Iterator[tuple[Departure, int, Any]]:
    """Yield of each metric the longest window of a kind, how many there are, and where the first narrow one begins."""
    kinds: dict[tuple[str, str], list[Departure]] = {}
    for each in found:
        kinds.setdefault((each.name, each.what), []).append(each)
    for windows in kinds.values():
        first: Any = windows[-1].first
        for each in reversed(windows):
            first = each.first if each.last and each.last < first else first
        yield windows[0], len(windows), first


def _print_annotations(run: str, found: Sequence[Departure]) -> None:
    from toyspec.core.commands.report_formats import workflow_command

    for each, _, _ in _longest(found):
        line = str(each.line or 1)
        print(workflow_command("error", each.sentence, file=shown(run), line=line, title="toyspec expect"))


def _print_pictures(expected: Expectation, found: Sequence[Departure]) -> None:
    print("\n```text")
    for name, metric in expected.metrics.items():
        marks = {(each.first, each.last): _MARKS.get(each.what, " ") for each in found if each.name == name}
        if marks:
            # The shortest windows are last, from the first step on.
            begin = max(at for at, each in enumerate(metric.bands) if each.first == metric.bands[0].first)
            finest = metric.bands[begin:]
            print("".join(marks.get((each.first, each.last), "·") for each in finest), shortened(name))
    print("```")


def _markdown(text: str) -> str:
    """Return *text* as Markdown that shows it."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#|!~&" else each for each in printable(text))
