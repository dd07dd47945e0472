"""``toyspec check``: check streams against the specification and list every finding."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from toyspec.core import rooms
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import (
    add_dialect,
    add_workers,
    chosen_workers,
    dialect_choice,
    runs_at,
    settings,
)
from toyspec.core.command_line.parsers import Parser, UsageError, add_color, local_path, number_from, rule_names
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.commands.report_formats import FORMATS, FORMS, FormatOptions
from toyspec.core.generated.limits import MAX_FINDINGS_PER_RULE, MAX_LINE_BYTES
from toyspec.core.places.addresses import public
from toyspec.core.reading.run_files import ranks_beside

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.reading.configuration import Configuration
    from toyspec.core.reading.log_detection import DialectChoice

DESCRIPTION = """\
Check streams against the specification: bytes, JSON, each record, the order of
records, and the files of the bundle.

PATH is a run directory, a stream, a directory with runs below it, or - for
standard input. A stream may be a gzip file. PATH may be in an object store or
on a web server: s3://bucket/runs. Streams of other ranks beside that of a run
are checked with it.

A file of another format is an error if PATH names it. In a directory it is
skipped and counted; -v lists it."""

_EPILOG = """\
formats:
{formats}

exit status:
  0  no finding at or above --fail-on
  1  a finding at or above --fail-on, or a stream that is not complete with
     --require-complete
  2  wrong usage, a path that could not be read, or a directory without a run;
     all other paths are still checked

Up to {findings} findings of each rule are listed per file; the rest are counted.

examples:
  toyspec check runs/
  toyspec check --require-complete --format github runs/llama-001
  toyspec check old/llama-002/events.jsonl.gz"""
USAGE = "toyspec check [OPTION…] PATH…"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    formats = "\n".join(f"  {name:<8}{use}" for name, use in FORMATS.items())
    parser.epilog = _EPILOG.format(formats=formats, findings=MAX_FINDINGS_PER_RULE)
    parser.value("paths", "PATH", "what to check", nargs="*", type=public)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--format", choices=tuple(FORMATS), default="text", help="form of the output; default: text")
    forms.add_argument("--json", dest="format", action="store_const", const="json", help="as --format json")
    _add_rules(parser)
    parser.value(
        "--expect",
        "FILE",
        "also compare each run with what FILE expects, as `toyspec expect check` does",
        type=local_path,
    )
    add_workers(parser)
    parser.flag("-v --verbose", "show infos too")
    parser.flag("-q --quiet", "one line per finding: no excerpt, help or summary")
    add_color(parser)


def _add_rules(parser: Parser) -> None:
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "info"),
        default="error",
        help="lowest severity that makes the exit status 1; default: error",
    )
    parser.flag("--require-complete", "exit with 1 unless every stream is complete and reached its planned step")
    for name, use in (("select", "report only"), ("ignore", "do not report")):
        parser.add_argument(
            f"--{name}",
            metavar="RULE[,RULE…]",
            type=rule_names,
            action="extend",
            default=[],
            help=f"{use} these rules; may be repeated",
        )
    parser.value(
        "--profile",
        "NAME|DIR",
        "format of the streams: toy/v1, metrics/v1, kaun/v1, or a directory with schemas and stream.json; "
        "default: detected from the first record",
    )
    add_dialect(parser)
    parser.value(
        "--max-line-bytes",
        "N",
        f"longest line that is checked; default: {MAX_LINE_BYTES}",
        type=number_from(1),
        default=MAX_LINE_BYTES,
    )


def run(options: Namespace) -> int:
    """Print the findings and return an exit code."""
    configuration = settings()
    options.paths = options.paths or list(configuration.roots)
    if not options.paths:
        raise UsageError("no path given; name a run, a stream, a directory of runs, or -, or set roots in toyspec.toml")
    if options.expect and options.format not in ("text", "github"):
        raise UsageError(f"--expect has no {options.format} form; `toyspec expect check --json` has one")
    choice = dialect_choice(options, configuration)
    workers = chosen_workers(options)
    from toyspec.core.checker import CheckOptions
    from toyspec.core.commands.verdicts import Verdict, check_paths

    wanted = CheckOptions(
        dialect=choice,
        select=options.select,
        ignore=_ignored(options.ignore, configuration),
        max_line_bytes=options.max_line_bytes,
    )
    style = FormatOptions(color=options.color, has_infos=options.verbose, is_brief=options.quiet)
    output = FORMS[options.format](sys.stdout, style)
    verdict = Verdict(output)
    # The streams of other ranks are checked with that of the run, also where files are named, as a hook does.
    beside = (each for path in options.paths if os.path.isfile(path) for each in ranks_beside(path).values())
    check_paths(list(dict.fromkeys([*options.paths, *beside])), wanted, verdict, workers=workers)
    output.end(verdict)
    code = verdict.exit_code(fail_on=options.fail_on, require_complete=options.require_complete)
    return max(code, _compared(options, choice)) if options.expect else code


def _compared(options: Namespace, choice: DialectChoice) -> int:
    """Print which runs are as expected and return an exit code."""
    expected, code = rooms.expect_bands.read_expectation(options.expect), exit_codes.OK
    for each in runs_at(options.paths, choice):
        stream, found = rooms.expect_bands.departures(each.place, expected, choice=choice)
        terminal = Terminal(color=options.color)
        rooms.expect_command.print_departures(stream, expected, found, options.format, terminal)
        code = exit_codes.FINDINGS if found else code
    return code


def _ignored(named: list[str], configuration: Configuration) -> list[str]:
    try:
        return [*named, *(rule for text in configuration.ignore for rule in rule_names(text))]
    except ArgumentTypeError as error:
        raise UsageError(f"{configuration.path}: {error}") from None
