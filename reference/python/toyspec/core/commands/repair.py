"""``toyspec repair``: move the fragment of a torn stream to a side file."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Literal

from toyspec.core.command_line.figures import counted, shown
from toyspec.core.command_line.parsers import Parser, UsageError, local_path
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.commands.stream_changes import change_each
from toyspec.core.escaping import printable_bytes, shortened
from toyspec.core.files import open_file
from toyspec.core.runs.discovery import find_streams
from toyspec.core.writing.appending import Repair
from toyspec.core.writing.appending import repair as repair_stream

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.runs.discovery import Stream

Outcome = Literal["sound", "repaired", "planned", "torn", "refused", "failed"]
Asks = Literal["plan", "ask", "cut"]

DESCRIPTION = """\
Move the fragment that a killed writer left after the last committed line of
a stream to a side file (events.jsonl.torn-OFFSET). Committed lines stay
untouched, and no byte is lost. A stream that a writer has open is refused.
So is a damaged one, since a cut cannot fix it, and any file whose first record
does not prove that it is a stream of toyspec.

PATH is a run directory, a stream, or a directory with runs below it. Asks
before each move unless --yes is given."""

EPILOG = """\
exit status:
  0  no stream has a fragment now; with --dry-run, none was refused
  1  a stream was not changed: declined, in use by a writer, or damaged
  2  wrong usage, or a path that could not be read or written

examples:
  toyspec repair --dry-run runs/
  toyspec repair --yes runs/llama-003"""

_HEAD_BYTES = 60
_OUTCOMES: dict[Outcome, str] = {
    "repaired": "repaired",
    "planned": "with a fragment",
    "torn": "with a fragment",
    "sound": "without a fragment",
    "refused": "left unchanged",
    "failed": "not read or written",
}
USAGE = "toyspec repair [OPTION…] PATH…"


def configure(parser: Parser) -> None:
    """Add arguments to *parser*."""
    parser.value("paths", "PATH", "what to repair", nargs="*", type=local_path)
    parser.flag("-n --dry-run", "show what would be done, change nothing")
    parser.flag("-y --yes", "do not ask")


def run(options: Namespace) -> int:
    """Repair the named streams and return an exit code."""
    if not options.paths:
        raise UsageError("no path given; name a run, a stream or a directory of runs")
    if "-" in options.paths:
        raise UsageError("standard input cannot be repaired; name a file or a directory")
    if not options.dry_run and not options.yes and not sys.stdin.isatty():
        raise UsageError("cannot ask: standard input is not a terminal; add --yes or --dry-run")
    asks: Asks = "plan" if options.dry_run else "cut" if options.yes else "ask"
    found = (each for path in options.paths for each in find_streams(path))
    return change_each("repair", found, partial(_repaired, asks=asks), noun="stream", titles=_OUTCOMES, least=0)


def _repaired(stream: Stream, *, asks: Asks) -> Outcome:
    """Repair one stream, or only plan it, and print what was done."""
    plan = repair_stream(stream.path, dry_run=True)
    if plan.change == "none":
        return "sound"
    terminal = Terminal(color="never")
    fragment = counted(plan.fragment_bytes, "byte")
    last = f"the last of {counted(plan.records, 'record')}" if plan.records else "no record"
    terminal.line(f"{shown(stream.path)}: {fragment} after {last}: {_head(plan)}")
    if asks == "plan":
        return "planned"
    if asks == "ask" and not _agreed():
        return "torn"
    if path := repair_stream(stream.path).torn_path:
        terminal.line(f"    moved to {shown(path)}")
    return "repaired"


def _head(plan: Repair) -> str:
    """Return the beginning of the fragment, inert."""
    with open_file(plan.path) as file:
        file.seek(plan.committed_bytes)
        head = file.read(_HEAD_BYTES + 1)
    more = "…" if len(head) > _HEAD_BYTES else ""
    return shortened(printable_bytes(head[:_HEAD_BYTES])) + more


def _agreed() -> bool:
    sys.stdout.write("    move it to a side file? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
