"""``toyspec report``: runs as one HTML page."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice, settings
from toyspec.core.command_line.figures import shown, size
from toyspec.core.command_line.parsers import Parser, number_from
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell
from toyspec.core.directories import write_output
from toyspec.health.options import all_rules

if TYPE_CHECKING:
    from argparse import Namespace
USAGE = "toyspec report [OPTION…] RUN… -o FILE"
DESCRIPTION = (
    "Write runs as one HTML page that any browser shows offline: the same views as\n"
    "`toyspec view`, with the data in the page. Each curve has at most --buckets\n"
    "buckets with their minimum and maximum, so that no spike is lost."
)
EPILOG = "examples:\n  toyspec report runs/ -o report.html"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("runs", "RUN", "run directories, streams, directories of runs, addresses", nargs="+")
    parser.value("-o --output", "FILE", "write to FILE", required=True)
    parser.value("--buckets", "N", "buckets of each curve; default: 1000", type=number_from(2), default=1000)
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Write the report and return an exit code."""
    from toyspec.view.report import html_report

    configuration = settings()
    # A wrong rule is reported before the runs are read.
    all_rules(None, configuration)
    choice = dialect_choice(options, configuration)
    try:
        with Progress("reading") as progress:
            text, _ = html_report(
                options.runs, now=time.time(), buckets=options.buckets, dialect=choice, on_progress=progress.update
            )
    except FileNotFoundError as error:
        tell("report", str(error))
        return exit_codes.USAGE
    data = text.encode()
    write_output(options.output, data)
    sys.stderr.write(f"wrote {shown(options.output)}, {size(len(data))}\n")
    return exit_codes.OK
