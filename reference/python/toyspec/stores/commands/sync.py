"""``toyspec sync``: keep a bucket in step with a folder of runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from toyspec.core.command_line.figures import shown, size
from toyspec.core.command_line.parsers import Parser, UsageError, local_path, seconds
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.escaping import printable
from toyspec.stores.commands.reports import SyncShower, add_settings, chosen_settings

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.stores.run_sync import RunResult
    from toyspec.stores.syncing import Syncing

_DESCRIPTION = """\
Send what the runs below RUNS have and PLACE lacks, and end. With --watch, go
on until Ctrl-C, or until a single run has ended. PLACE is s3://, gs://, az://
or a directory. The run RUNS/a becomes PLACE/a; if RUNS is one run, PLACE is
its copy.

PLACE gets whole committed lines only, also of live runs. Nothing is deleted,
and a log is only replaced by one that continues it, or after it has another
name. Each write names the object that it replaces, so two of these commands
never undo each other. After any interruption, call it again.

With --watch, PLACE gets new lines at each poll. A store gets a stream whole, so
there new lines wait for a second for each 64 KiB of the stream, or --max-delay
D for D seconds at the latest.

The log of a run is sent: the streams of all ranks, their side files, media,
annotations, run.json, flow.json and the seal. --all sends all other files too."""

_EPILOG = """\
Credentials are those of the environment, for example AWS_ACCESS_KEY_ID. Stores
need the extra remote: python -m pip install 'toyspec[remote]'.

exit status:
  0  PLACE has everything
  1  something is left: another or a longer run is there, or PLACE failed
  2  wrong usage, or nothing could be read or reached

examples:
  toyspec sync runs/ s3://bucket/runs
  toyspec sync --watch runs/ s3://bucket/runs
  toyspec sync --dry-run --all runs/ gs://bucket/runs"""

_EVERY_SECONDS = 10.0


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.usage = "toyspec sync [OPTION…] RUNS PLACE"
    parser.description = _DESCRIPTION
    parser.epilog = _EPILOG
    parser.add_argument("runs", metavar="RUNS", type=local_path, help="a directory of runs, or one run")
    parser.add_argument("place", metavar="PLACE", help="where they are kept, too")
    parser.add_argument("--watch", action="store_true", help="go on until Ctrl-C; with --json, a line for each pass")
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=seconds,
        default=_EVERY_SECONDS,
        help=f"with --watch: time between two polls; default: {_EVERY_SECONDS:g}",
    )
    parser.add_argument(
        "--max-delay",
        metavar="SECONDS",
        type=seconds,
        help="with --watch: most seconds that new lines wait where a stream is sent whole",
    )
    add_settings(parser, "PLACE")


def run(options: Namespace) -> int:
    """Bring the place in step and return an exit code."""
    from toyspec.stores.syncing import Syncing

    if not os.path.isdir(options.runs):
        raise UsageError(f"{options.runs}: not a directory; name a directory of runs, or that of one run")
    if options.max_delay is not None and not options.watch:
        raise UsageError("--max-delay is about --watch; without it, everything is sent at once")
    if options.watch and options.dry_run:
        raise UsageError("--dry-run sends nothing, so there is nothing to watch; leave out one of the two")
    chosen = chosen_settings(options, max_delay=options.max_delay)
    syncing = Syncing(options.runs, options.place, chosen)
    return _watched(syncing, options) if options.watch else _once(syncing, options)


def _once(syncing: Syncing, options: Namespace) -> int:
    progress = Progress("syncing")
    sent = 0

    def on_result(result: RunResult, done: int, total: int) -> None:
        nonlocal sent
        sent += result.sent
        progress.show(f"{done} of {total} runs, {size(sent)} sent")

    try:
        report = syncing.once(on_result=on_result)
    finally:
        progress.erase()
    if not report.runs:
        raise UsageError(f"{options.runs}: no run in the directory or below")
    shower = SyncShower("sync", options)
    shower.take(report)
    shower.finish()
    return shower.status


def _watched(syncing: Syncing, options: Namespace) -> int:
    over = threading.Event()

    def end(number: int, _: object) -> None:
        # The second one ends it at once.
        signal.signal(number, signal.default_int_handler)
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    shower = SyncShower("sync", options)
    terminal = Terminal(sys.stderr)
    if terminal.interactive:
        where = f"{shown(options.runs)} → {printable(syncing.address)}"
        terminal.line(terminal.styled(f"{where}, every {options.every:g} s; Ctrl-C sends the rest and ends", "dim"))
    try:
        syncing.watch(over, options.every, shower.take)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    shower.finish()
    return shower.status
