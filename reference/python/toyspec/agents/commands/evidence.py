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
from toyspec.core.directories import write_output
from toyspec.core.errors import StreamError
from toyspec.core.escaping import encodable, printable
from toyspec.core.files import open_file

if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

_DESCRIPTION = """\
Write what an auditor asks about a run, from its log and the files beside it:
command, code (commit, changes), data, environment, settings, machines, how the
run ended, what each metric comes to, notes (who decided what) with their lines,
files with their digests, those that the log names and the run lacks, and the
seal. What the log does not have is listed as not_recorded.

--verify compares a document with the run, without a network: each part that
differs is named. A page (.html) is for people and cannot be verified."""
_EPILOG = """\
examples:
  toyspec evidence runs/llama-003 -o evidence.json
  toyspec evidence runs/llama-003 -o evidence.html
  toyspec evidence runs/llama-003 --verify evidence.json
  toyspec evidence runs/llama-003 --json | jq .not_recorded

exit status: 0 if it is written, or the document holds; 1 if it does not hold;
2 if the command is wrong, or a path cannot be read or written"""
_MOST_SHOWN = 30


def configure(parser: Parser) -> None:
    """Add description, arguments and an example to *parser*."""
    parser.usage = "toyspec evidence RUN -o FILE\n       toyspec evidence RUN --verify FILE [--json]\n"
    parser.usage += "       toyspec evidence RUN --json"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("run", metavar="RUN", type=local_path, help="a run directory, or a stream")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-o", "--output", metavar="FILE", type=local_path, help="where to write JSON, or a page (.html)")
    what.add_argument("--verify", metavar="FILE", type=local_path, help="compare this document with the run")
    parser.add_argument("--json", action="store_true", help="print the document; with --verify, what differs")
    add_profile(parser)
    add_dialect(parser)


def run(options: Namespace) -> int:
    """Write or verify the document and return an exit code."""
    from toyspec.agents.evidence import differences, evidence_of, evidence_page

    if options.output and options.json:
        raise UsageError("-o writes the document and --json prints it; leave out one of the two")
    if not (options.output or options.verify or options.json):
        raise UsageError("say what to do: -o FILE writes the document, --json prints it, --verify FILE compares it")
    file = options.output or options.verify
    try:
        document = _document(file) if options.verify else None
        now = evidence_of(options.run, leave_out=file, dialect=dialect_choice(options))
        if file is None:
            sys.stdout.write(_json(now))
            return exit_codes.OK
        if document is None:
            text = evidence_page(now) if file.endswith((".html", ".htm")) else _json(now)
            write_output(file, text.encode())
            sys.stderr.write(f"wrote {shown(file)}; not recorded: {', '.join(now['not_recorded']) or 'nothing'}\n")
            return exit_codes.OK
    except StreamError as error:
        tell("evidence", str(error))
        return exit_codes.USAGE
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


def _json(document: dict[str, Any]) -> str:
    lines = msgspec.json.format(msgspec.json.encode(document)).decode().split("\n")
    return "\n".join(map(inert, lines)) + "\n"
