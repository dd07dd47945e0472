"""``toyspec report``: runs as one HTML page, or as a table for a pull request."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, dialect_choice, settings
from toyspec.core.command_line.figures import shown, size
from toyspec.core.command_line.parsers import Parser, UsageError, number_from
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import StreamError
from toyspec.health.options import all_rules

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.reading.log_detection import DialectChoice


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec report [OPTION…] RUN…"
    parser.description = (
        "Write runs as one HTML page that any browser shows offline: the same views as\n"
        "`toyspec view`, with the data in the page. Each curve has at most --buckets\n"
        "buckets with their minimum and maximum, so that no spike is lost.\n"
        "\n"
        "With --md, or -o FILE.md, write a Markdown table with a small curve of each run,\n"
        "for a pull request or the summary of a workflow."
    )
    parser.epilog = (
        "examples:\n"
        "  toyspec report runs/ -o report.html\n"
        '  toyspec report --md --metric val/acc runs/ >> "$GITHUB_STEP_SUMMARY"'
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="run directories, streams, directories of runs, addresses"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE; without it, --md prints the table")
    parser.add_argument("--md", action="store_true", help="write a Markdown table instead of a page")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="with --md: a metric; may be repeated; default: loss",
    )
    parser.add_argument(
        "--buckets", metavar="N", type=number_from(2), default=1000, help="buckets of each curve; default: 1000"
    )
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Write the report and return an exit code."""
    configuration = settings()
    choice = dialect_choice(options, configuration)
    # A wrong rule is reported before the runs are read.
    all_rules(None, configuration)
    is_table = options.md or str(options.output).lower().endswith(".md")
    if not is_table and options.output is None:
        raise UsageError("name the page to write: -o report.html, or print a table by --md")
    if options.metric and not is_table:
        raise UsageError("--metric is about the table of --md; leave out --metric: the page has every metric")
    try:
        text = _table(options, choice) if is_table else _page(options, choice)
    except (StreamError, FileNotFoundError) as error:
        tell("report", str(error))
        return exit_codes.USAGE
    if options.output is None:
        sys.stdout.write(text)
        return exit_codes.OK
    with open(options.output, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    sys.stderr.write(f"wrote {shown(options.output)}, {size(len(text.encode()))}\n")
    return exit_codes.OK


def _table(options: Namespace, choice: DialectChoice) -> str:
    from toyspec.core.runs.markup import markdown_table
    from toyspec.core.runs.run import list_runs
    from toyspec.core.runs.summary import summarize_run
    from toyspec.view.charts import require_metrics

    listed = list_runs(*options.runs, dialect=choice)
    for error in listed.errors:
        raise StreamError(error.path, error.message)
    found = [summarize_run(run.path, dialect=choice) for run in listed]
    require_metrics(options.metric, list(dict.fromkeys(name for run in found for name in run.series)))
    return markdown_table(found, options.metric)


def _page(options: Namespace, choice: DialectChoice) -> str:
    from toyspec.view.report import html_report

    progress = Progress("reading")
    try:
        text, _ = html_report(
            options.runs, now=time.time(), buckets=options.buckets, dialect=choice, on_progress=progress.update
        )
    finally:
        progress.erase()
    return text
