"""``toyspec sync``: keep a bucket in step with a folder of runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import counted, shown, size
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.parsers import Parser, UsageError, local_path, seconds
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.stores.run_sync import RunResult, SyncReport
    from toyspec.stores.syncing import Syncing

DESCRIPTION = """\
Send what the runs below RUNS have and PLACE lacks, and end. With --watch, go
on until Ctrl-C, or until a single run has ended. PLACE is s3://, gs://, az://
or a directory. The run RUNS/a becomes PLACE/a; if RUNS is one run, PLACE is
its copy.

PLACE gets whole committed lines only, also of live runs. Nothing is deleted,
and a log is only replaced by one that continues it, as far as its first and
last bytes show, or after it has another name. Each write names the object that
it replaces, so two of these commands never undo each other. After any
interruption, call it again.

With --watch, PLACE gets new lines at each poll. A store gets a stream whole, so
there new lines wait for a second for each 64 KiB of the stream, or --max-delay
D for D seconds at the latest.

The log of a run is sent: the streams of all ranks, their side files, media,
annotations, run.json, flow.json and the seal. --all sends all other files too."""

EPILOG = """\
Credentials are those of the environment, for example AWS_ACCESS_KEY_ID. Stores
need the extra remote: python -m pip install 'toyspec[remote]'.

exit status:
  0  PLACE has everything
  1  something is left: another or a longer run is there, or PLACE failed
  2  wrong usage, or nothing could be read or reached

examples:
  toyspec sync runs/ s3://bucket/runs
  toyspec sync --watch runs/ s3://bucket/runs
  toyspec sync --all runs/ gs://bucket/runs"""

_EVERY_SECONDS = 10.0
# A page of a list has so many: fewer cost no request of their own.
_WORTH_SAYING = 1000
USAGE = "toyspec sync [OPTION…] RUNS PLACE"


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.value("runs", "RUNS", "a directory of runs, or one run", type=local_path)
    parser.value("place", "PLACE", "where they are kept, too")
    parser.flag("--watch", "go on until Ctrl-C; with --json, a line for each pass")
    parser.value(
        "--every",
        "SECONDS",
        f"with --watch: time between two polls; default: {_EVERY_SECONDS:g}",
        type=seconds,
        default=_EVERY_SECONDS,
    )
    parser.value(
        "--max-delay",
        "SECONDS",
        "with --watch: most seconds that new lines wait where a stream is sent whole",
        type=seconds,
    )
    for name, text in {
        "--all": "send weights, artifacts and all other files of a run too",
        "--keep-both": "where PLACE has another run, rename that one, and send this one",
        "--json": "print a JSON report",
    }.items():
        parser.flag(name, text)
    parser.flag("-v --verbose", "name each run that was sent")


def run(options: Namespace) -> int:
    """Bring the place in step and return an exit code."""
    from toyspec.stores.run_sync import SyncSettings
    from toyspec.stores.syncing import Syncing

    if not os.path.isdir(options.runs):
        raise UsageError(f"{options.runs}: not a directory; name a directory of runs, or that of one run")
    if options.max_delay is not None and not options.watch:
        raise UsageError("--max-delay is about --watch; without it, everything is sent at once")
    chosen = SyncSettings(
        extent="all" if options.all else "logs",
        on_conflict="keep both" if options.keep_both else "leave",
        max_delay=options.max_delay,
    )
    syncing = Syncing(options.runs, options.place, chosen)
    return _watched(syncing, options) if options.watch else _once(syncing, options)


def _once(syncing: Syncing, options: Namespace) -> int:
    sent = 0

    def on_result(result: RunResult, done: int, total: int) -> None:
        nonlocal sent
        sent += result.sent
        progress.show(f"{done} of {total} runs, {size(sent)} sent")

    with Progress("syncing") as progress:
        report = syncing.once(on_result=on_result)
    if not report.runs:
        raise UsageError(f"{options.runs}: no run in the directory or below")
    shower = SyncShower(options)
    shower.take(report)
    return shower.finish()


def _watched(syncing: Syncing, options: Namespace) -> int:
    over = threading.Event()

    def end(number: int, _: object) -> None:
        # The second one ends it at once.
        signal.signal(number, signal.default_int_handler)
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    shower = SyncShower(options)
    terminal = Terminal(sys.stderr)
    if terminal.interactive:
        where = f"{shown(options.runs)} → {printable(syncing.address)}"
        terminal.line(terminal.styled(f"{where}, every {options.every:g} s; Ctrl-C sends the rest and ends", "dim"))
    try:
        syncing.watch(over, options.every, shower.take)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return shower.finish()


class SyncShower:
    """Shows passes: what a person has to know once, and a summary at the end."""

    def __init__(self, options: Namespace) -> None:
        """Show what the command says with ``json``, ``verbose`` and ``watch`` of *options*."""
        self._options = options
        self._terminal = Terminal()
        self._said: set[tuple[str, str]] = set()
        self._sent: dict[str, int] = {}
        self._report: SyncReport | None = None

    def take(self, report: SyncReport) -> None:
        """Show what is new in the report of a pass."""
        self._report = report
        if report.passed_over >= _WORTH_SAYING:
            fact = f"{report.passed_over:,} objects there are of none of these runs and were passed over, such as"
            tell("sync", f"{report.address}: {fact} {report.example.removeprefix(report.address).lstrip('/')}")
        for run in report.runs:
            if run.files:
                self._sent[run.address] = self._sent.get(run.address, 0) + run.sent
            self._show(run)
        if self._options.json and (not self._options.watch or any(run.files or run.facts for run in report.runs)):
            self._terminal.line(inert_json(report))
        sys.stdout.flush()

    def _show(self, run: RunResult) -> None:
        if self._options.verbose and run.files and not self._options.json:
            fragment = f", without a fragment of {run.fragment} bytes" if run.fragment else ""
            self._terminal.line(f"{shown(run.run)}: {counted(run.files, 'file')}, {size(run.sent)}{fragment}")
        for fact in run.facts:
            if (run.run, fact) not in self._said:
                self._said.add((run.run, fact))
                # What has passed may come again.
                tell("sync", f"{run.address}: {fact}")

    def finish(self) -> int:
        """Show the summary, and return the exit code of the last pass."""
        from toyspec.stores.run_sync import LEFT

        report = self._report
        if report is None:
            return exit_codes.OK
        status = exit_codes.FINDINGS if report.count(*LEFT) else exit_codes.OK
        if self._options.json:
            return status
        live = sum(run.is_live for run in report.runs)
        counts = {
            "sent": len(self._sent),
            "live": live,
            "longer there": report.count("ahead"),
            "of another run there": report.count("conflict"),
            "failed": report.count("failed"),
        }
        words = [f"{count} {word}" for word, count in counts.items() if count]
        words += [size(sum(self._sent.values()))] if self._sent else [] if words else ["nothing to send"]
        self._terminal.line(f"{counted(len(report.runs), 'run')} → {printable(report.address)}: {', '.join(words)}")
        return status
