"""Shows the reports of ``toyspec sync`` and ``push``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import counted, shown, size
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from argparse import Namespace

    from toyspec.core.command_line.parsers import Parser
    from toyspec.stores.run_sync import RunResult, SyncReport, SyncSettings

# A page of a list has so many: fewer cost no request of their own.
_WORTH_SAYING = 1000


def add_settings(parser: Parser, place: str) -> None:
    """Add what ``chosen_settings`` and ``SyncShower`` ask for."""
    for name, text in {
        "--all": "send weights, artifacts and all other files of a run too",
        "--dry-run": "send nothing, and say what would be sent",
        "--checksum": "compare every byte, not only digests or ends",
        "--keep-both": f"where {place} has another run, rename that one, and send this one",
        "--json": "print a JSON report",
    }.items():
        parser.add_argument(name, action="store_true", help=text)
    parser.add_argument("-v", "--verbose", action="store_true", help="name each run that was sent")


def chosen_settings(options: Namespace, *, max_delay: float | None = None) -> SyncSettings:
    """Return what ``--all``, ``--checksum`` and ``--keep-both`` choose, with the most seconds that new lines wait."""
    from toyspec.stores.run_sync import SyncSettings

    return SyncSettings(
        extent="all" if options.all else "logs",
        thoroughness="all" if options.checksum else "ends",
        on_conflict="keep both" if options.keep_both else "leave",
        max_delay=max_delay,
        is_rehearsal=options.dry_run,
    )


class SyncShower:
    """Shows passes: what a person has to know once, and a summary at the end."""

    def __init__(self, command: str, options: Namespace) -> None:
        """Show what *command* says; *options* has ``json`` and ``verbose``, and ``watch`` where there are passes."""
        self._command = command
        self._is_watching = getattr(options, "watch", False)
        self._options = options
        self._terminal = Terminal()
        self._said: set[tuple[str, str]] = set()
        self._sent: dict[str, int] = {}
        self._report: SyncReport | None = None

    @property
    def status(self) -> int:
        """The exit code of the last pass."""
        from toyspec.stores.run_sync import LEFT

        left = self._report is not None and self._report.count(*LEFT)
        return exit_codes.FINDINGS if left else exit_codes.OK

    def take(self, report: SyncReport) -> None:
        """Show what is new in the report of a pass."""
        self._report = report
        if report.passed_over >= _WORTH_SAYING:
            fact = f"{report.passed_over:,} objects there are of none of these runs and were passed over, such as"
            tell(self._command, f"{report.address}: {fact} {report.example.removeprefix(report.address).lstrip('/')}")
        for run in report.runs:
            if run.files:
                self._sent[run.address] = self._sent.get(run.address, 0) + run.sent
            self._show(run)
        if self._options.json and (not self._is_watching or any(run.files or run.facts for run in report.runs)):
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
                tell(self._command, f"{run.address}: {fact}")

    def finish(self) -> None:
        """Show the summary."""
        report = self._report
        if report is None or self._options.json:
            return
        live = sum(run.is_live for run in report.runs)
        counts = {
            "would be sent" if report.is_rehearsal else "sent": len(self._sent),
            "live": live,
            "longer there": report.count("ahead"),
            "of another run there": report.count("conflict"),
            "failed": report.count("failed"),
        }
        words = [f"{count} {word}" for word, count in counts.items() if count]
        words += [size(sum(self._sent.values()))] if self._sent else [] if words else ["nothing to send"]
        self._terminal.line(f"{counted(len(report.runs), 'run')} → {printable(report.address)}: {', '.join(words)}")
