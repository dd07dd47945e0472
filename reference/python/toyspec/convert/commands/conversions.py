"""What importing and exporting share: the options of their report, and how it is shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.convert.reports import MAX_EXAMPLES, text_of
from toyspec.core.command_line.objects import inert
from toyspec.core.command_line.parsers import number_from
from toyspec.core.command_line.terminal import tell, without_ci_commands
from toyspec.core.escaping import encodable

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.convert import ConversionReport
    from toyspec.core.command_line.parsers import Parser


def add_report(parser: Parser) -> None:
    """Add the options of the report to *parser*."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--examples",
        metavar="N",
        type=number_from(0),
        default=MAX_EXAMPLES,
        help=f"examples of each cause in the report; default: {MAX_EXAMPLES}",
    )


def show(report: ConversionReport, options: Namespace) -> None:
    """Print *report*."""
    sys.stdout.write(_document(report) if options.json else _text(report))
    for error in report.errors:
        tell(report.direction, f"{error.path}: {error.message}")


def _text(report: ConversionReport) -> str:
    lines = [without_ci_commands(line) for made in report.runs for line in text_of(made)]
    if len(report.runs) > 1:
        total = report.summary
        counts = f"{total.carried} carried, {total.changed} changed, {total.dropped} dropped"
        lines.append(f"{total.runs} runs: {total.items} items, {counts}")
    return "".join(f"{line}\n" for line in lines)


def _document(report: ConversionReport) -> str:
    import msgspec

    value = msgspec.to_builtins(report)
    for part in value["runs"]:
        part.update(source=encodable(part["source"]), target=encodable(part["target"]))
    for part in value["errors"]:
        part["path"] = encodable(part["path"])
    lines = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().split("\n")
    return "\n".join(map(inert, lines)) + "\n"
