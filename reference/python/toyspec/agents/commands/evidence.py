"""``toyspec evidence``: what an auditor asks about a run, as one document."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import add_dialect, add_profile, dialect_choice
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.objects import inert, inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.terminal import tell
from toyspec.core.errors import StreamError
from toyspec.core.escaping import encodable, printable
from toyspec.core.files import open_file

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

_DESCRIPTION = """\
Print what an auditor asks about a run as one document in JSON, made from its
log and the files beside it: command, code (commit, changes), data, environment,
settings, machines, how the run ended, what each metric comes to, notes (who
decided what) with their lines, files with their digests, and the seal. What the
log does not have is listed as not_recorded.

--verify compares a document with the run, without a network: each part that
differs is named. Keep the document out of the folder of the run: it would be
one of its files."""
_EPILOG = """\
examples:
  toyspec evidence --json runs/llama-003 > evidence.json
  toyspec evidence runs/llama-003 --verify evidence.json
  toyspec evidence --json runs/llama-003 | jq .not_recorded

exit status: 0 if it is printed, or the document holds; 1 if it does not hold;
2 if the command is wrong, or a path cannot be read"""
_MOST_SHOWN = 30


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec evidence RUN --json\n       toyspec evidence RUN --verify FILE [--json]"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("run", metavar="RUN", type=local_path, help="a run directory, or a stream")
    parser.add_argument("--verify", metavar="FILE", type=local_path, help="compare this document with the run")
    parser.add_argument("--json", action="store_true", help="print the document; with --verify, what differs")
    add_profile(parser)
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Print or verify the document and return an exit code."""
    from toyspec.agents.evidence import differences, evidence_of

    file = options.verify
    if not (file or options.json):
        raise UsageError("say what to do: --json prints the document, --verify FILE compares it")
    try:
        document = _document(file) if file else None
        now = evidence_of(options.run, dialect=dialect_choice(options))
    except StreamError as error:
        tell("evidence", str(error))
        return exit_codes.USAGE
    if document is None:
        lines = msgspec.json.format(msgspec.json.encode(now)).decode().split("\n")
        sys.stdout.write("\n".join(map(inert, lines)) + "\n")
        return exit_codes.OK
    found = differences(document, now)
    if options.json:
        sys.stdout.write(inert_json({"file": encodable(file), "holds": not found, "differences": found}) + "\n")
        return exit_codes.FINDINGS if found else exit_codes.OK
    for pointer in found[:_MOST_SHOWN]:
        print(f"{shown(file)}: {printable(pointer)} differs from the run")
    if len(found) > _MOST_SHOWN:
        print(f"and {len(found) - _MOST_SHOWN} more differences")
    print(f"{shown(file)}: " + ("it does not hold" if found else "it holds: the run and its files are unchanged"))
    return exit_codes.FINDINGS if found else exit_codes.OK


def _document(file: str) -> dict[str, Any]:
    from toyspec.agents.evidence import FORM

    try:
        with open_file(file) as opened:
            found = msgspec.json.decode(opened.read())
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict) or found.get("form") != FORM:
        raise UsageError(f"{shown(file)} must be a document in JSON that `toyspec evidence` wrote")
    return found
