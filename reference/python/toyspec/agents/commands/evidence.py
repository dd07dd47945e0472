"""``toyspec evidence``: what an auditor asks about a run, as one document."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_reading, dialect_choice
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, local_path

if TYPE_CHECKING:
    from argparse import Namespace

DESCRIPTION = """\
Print what an auditor asks about a run as one document in JSON, made from its
log and its seal: command, code (the revision), data, environment, settings,
machines, how the run ended, what each metric comes to, notes (who decided what)
with their lines, and the seal with the digests of the files that it covers.
What the run does not have, or is left out, is listed as not_recorded.

Seal the run before: `toyspec seal`. The same log and seal always give the same
document, and `toyspec check` compares the files with the seal."""
EPILOG = """\
examples:
  toyspec seal runs/llama-003
  toyspec evidence runs/llama-003 > evidence.json
  toyspec evidence runs/llama-003 | diff evidence.json -
  toyspec evidence runs/llama-003 | jq .not_recorded

exit status: 0 if it is printed, 2 if the command is wrong, or a path cannot be
read"""
USAGE = "toyspec evidence [OPTION…] RUN"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("run", "RUN", "a run directory, or a stream", type=local_path)
    parser.flag("--json", "print the document; always done")
    add_reading(parser)


def run(options: Namespace) -> int:
    """Print the document and return an exit code."""
    from toyspec.agents.evidence import evidence_of

    document = evidence_of(options.run, dialect=dialect_choice(options))
    sys.stdout.write(msgspec.json.format(inert_json(document)) + "\n")
    return exit_codes.OK
