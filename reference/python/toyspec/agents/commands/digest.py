"""``toyspec digest``: what there is to say about runs, in a number of tokens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.agents.digest import DEFAULT_TOKENS, digest
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice, runs_at, settings
from toyspec.core.command_line.parsers import Parser, UsageError, number_from
from toyspec.core.places.addresses import public
from toyspec.health.options import all_rules

if TYPE_CHECKING:
    from argparse import Namespace

DESCRIPTION = (
    "Print what there is to say about runs as JSON in at most N tokens, for a program\n"
    "that reads them: how they ended, errors, warnings, samples, the ends and\n"
    "extremes of each metric, settings (of several runs those that differ), notes,\n"
    "and changes. Alerts and findings are grouped by rule, level and metric, and the\n"
    "most serious come first. Each number of a record is exact and has its line; a\n"
    "value without a line is computed. How a run ended and the extremes of its loss\n"
    "are always there, of many runs as a table that marks outliers. What there is no\n"
    "room for is counted.\n"
    "\n"
    "Tokens are counted by a rule: one token for each 4 letters, 3 digits, other sign\n"
    "and line feed that is printed, each word and number rounded up; spaces are free;\n"
    "other characters than ASCII cost one token for each byte of their UTF-8."
)
EPILOG = (
    "examples:\n"
    "  toyspec digest runs/llama-003\n"
    "  toyspec digest --tokens 500 runs/llama-003\n"
    "  toyspec digest --since c1-4096.5f2a91 runs/llama-003\n"
    "\n"
    "exit status: 0 if the digest is printed, 2 if the command is wrong, N is too\n"
    "small, a run cannot be read, or is not the one that the cursor is from"
)
USAGE = "toyspec digest [OPTION…] RUN…"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("runs", "RUN", "runs, or directories with runs, also s3://…", nargs="+", type=public)
    parser.value("--since", "CURSOR", "what is new since the digest that printed it")
    parser.value(
        "--tokens", "N", f"most tokens to print; default: {DEFAULT_TOKENS}", type=number_from(1), default=DEFAULT_TOKENS
    )
    parser.flag("--json", "print an object, one item on each line; always done")
    add_reading(parser)


def run(options: Namespace) -> int:
    """Print the digest and return an exit code."""
    configuration = settings()
    rules, choice = all_rules(None, configuration), dialect_choice(options, configuration)
    try:
        runs = [each.place for each in runs_at(options.runs, choice)]
        made = digest(runs, tokens=options.tokens, since=options.since, rules=rules, dialect=choice)
    except ValueError as error:
        raise UsageError(str(error)) from None
    sys.stdout.write(made.render())
    return exit_codes.OK
