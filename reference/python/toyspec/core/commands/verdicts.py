"""Runs the checker over paths, passes its findings to a format, and decides the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from toyspec.core.checker import Summary, iter_runs, summarize
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.progress import Progress
from toyspec.core.findings import PathError, Skipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.checker import CheckOptions
    from toyspec.core.commands.formats import ReportFormat
    from toyspec.core.findings import FileReport, Severity
    from toyspec.core.workers.running import Workers


class Verdict:
    """Passes reports to a format and adds up what the exit code depends on."""

    def __init__(self, output: ReportFormat) -> None:
        self.output = output
        self._files = self._errors = self._warnings = self._infos = 0
        self._incomplete = False
        self._unreadable = False

    def file(self, report: FileReport) -> None:
        """Add the report of one stream; its findings were shown before."""
        of_file = summarize([report])
        self._files += 1
        self._errors += of_file.errors
        self._warnings += of_file.warnings
        self._infos += of_file.infos
        is_cut = report.dialect is not None and report.dialect.ended == "no"
        self._incomplete = self._incomplete or is_cut or report.state != "complete"
        self.output.file(report)

    def error(self, error: PathError) -> None:
        """Add a path that could not be read."""
        self._unreadable = True
        self.output.error(error)

    def summary(self) -> Summary:
        """Return the totals over everything added."""
        return Summary(self._files, self._errors, self._warnings, self._infos)

    def exit_code(self, *, fail_on: Severity, require_complete: bool) -> int:
        """Return the exit code; a path that could not be read outweighs any finding."""
        if self._unreadable:
            return exit_codes.USAGE
        counts = {"error": self._errors, "warning": self._warnings, "info": self._infos}
        grave = ("error", "warning", "info").index(fail_on) + 1
        failed = any(list(counts.values())[:grave]) or (require_complete and self._incomplete)
        return exit_codes.FINDINGS if failed else exit_codes.OK


class MoreFindings(Protocol):
    """Looks at more than a checker does."""

    def added(self, report: FileReport) -> FileReport:
        """Return *report* with more findings."""
        ...


def check_paths(
    paths: Sequence[str],
    options: CheckOptions,
    verdict: Verdict,
    *,
    workers: int | Workers,
    more: Sequence[MoreFindings] = (),
) -> None:
    """Check everything below *paths*; each of *more* adds to the reports."""
    progress = Progress("checking")
    watch = progress.update if progress.active else None
    reports = iter_runs(paths, options=options, workers=workers, on_progress=watch)
    for report in reports:
        progress.erase()
        if isinstance(report, PathError):
            verdict.error(report)
            continue
        if isinstance(report, Skipped):
            verdict.output.skipped(report)
            continue
        for check in more:
            report = check.added(report)  # noqa: PLW2901 - the report with more in it
        for finding in report.findings:
            verdict.output.finding(report.path, finding)
        verdict.file(report)
    progress.erase()
