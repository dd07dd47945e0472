"""What importing and exporting share: the options of their report, and what happens until it is shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from toyspec.convert.reports import MAX_EXAMPLES, text_of
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import UsageError, number_from
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell, without_ci_commands

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from toyspec.convert import ConversionReport
    from toyspec.convert.reports import Direction
    from toyspec.core.command_line.parsers import Parser
    from toyspec.core.watching import Watch


def add_report(parser: Parser) -> None:
    """Add the options of the report to *parser*."""
    parser.flag("--json", "print the report as JSON")
    parser.value(
        "--examples",
        "N",
        f"examples of each cause in the report; default: {MAX_EXAMPLES}",
        type=number_from(0),
        default=MAX_EXAMPLES,
    )


def converted(
    direction: Direction, convert: Callable[[Watch | None], ConversionReport], options: Namespace, stopped: str
) -> int:
    """Call *convert*, print its report and return an exit code; at Ctrl-C say what is there of what was *stopped*."""
    with Progress(f"{direction}ing") as progress:
        try:
            report = convert(progress.on_bytes)
        except ImportError as error:
            raise UsageError(str(error)) from error
        except KeyboardInterrupt:
            progress.erase()
            tell(direction, f"stopped; {stopped}")
            raise
    sys.stdout.write(msgspec.json.format(inert_json(report), indent=2) + "\n" if options.json else _text(report))
    for each in report.errors:
        tell(direction, f"{each.path}: {each.message}")
    if report.errors or not report.runs:
        return exit_codes.USAGE
    return exit_codes.FINDINGS if any(made.has_damage for made in report.runs) else exit_codes.OK


def _text(report: ConversionReport) -> str:
    lines = [without_ci_commands(line) for made in report.runs for line in text_of(made)]
    if len(report.runs) > 1:
        total = report.summary
        counts = f"{total.carried} carried, {total.changed} changed, {total.dropped} dropped"
        lines.append(f"{total.runs} runs: {total.items} items, {counts}")
    return "".join(f"{line}\n" for line in lines)
