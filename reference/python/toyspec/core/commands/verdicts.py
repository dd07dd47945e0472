"""Runs the checker over paths, passes its findings to a format, and decides the exit code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from toyspec.core.checker import iter_runs
from toyspec.core.checker.checking import counted as counted_findings
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import counted
from toyspec.core.command_line.progress import Progress
from toyspec.core.command_line.tables import some_of
from toyspec.core.findings import FileReport, PathError, state_text
from toyspec.core.format.profiles import closing_kind
from toyspec.core.reading.run_files import earlier_logs, run_of
from toyspec.core.runs.stream_ends import is_end_unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.checker import CheckOptions
    from toyspec.core.commands.report_formats import ReportFormat
    from toyspec.core.findings import Ended, Severity, Skipped
    from toyspec.core.workers.running import Workers


_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_STATES = ("complete", "no end mark", "not ended", "torn", "damaged", "without a stream")
# Of the streams of one run, the last counts: one without an end mark says nothing where another has an end.
_RANKED = ("no end mark", "complete", "not ended", "torn", "damaged")
_MOST_NAMED = 3


class Verdict:
    """Passes reports to a format and adds up what the exit code and the summary depend on."""

    def __init__(self, output: ReportFormat) -> None:
        self.output = output
        self._counts = Counter[str]()
        self._states = dict.fromkeys(_STATES, 0)
        self._kept: list[str] = []
        self._is_incomplete = False
        self._run: tuple[str | None, str] = (None, "")

    def file(self, report: FileReport) -> None:
        """Add the report of one stream; its findings were shown before. The streams of a run come one after another."""
        self._counts.update(counted_findings(report), file=1)
        is_cut = report.dialect is not None and report.dialect.ended == "no"
        self._is_incomplete = self._is_incomplete or is_cut or report.state != "complete"
        if report.state is None:
            self._states["without a stream"] += 1
        elif report.profile is None and report.dialect is None:
            self._counts["foreign"] += 1
        else:
            is_torn = report.state == "torn" and report.profile == "toy/v1"
            is_unknown = is_end_unknown(report.path) if is_torn else closing_kind(report.profile) is None
            own: Ended = "unknown" if is_unknown else "yes"
            ended = own if report.dialect is None else report.dialect.ended
            state = state_text(report.state, ended, report.profile)
            run = run_of(report.path)
            if run == self._run[0]:
                # A run with two streams has the worse state of both.
                self._states[self._run[1]] -= 1
                state = max(state, self._run[1], key=_RANKED.index)
            self._states[state] += 1
            self._run = run, state
        self._kept += earlier_logs(report.path)
        self.output.file(report)

    def other(self, entry: PathError | Skipped) -> None:
        """Add a path that could not be read, or a file that is not a run."""
        self._counts["unreadable" if isinstance(entry, PathError) else "skipped"] += 1
        self.output.other(entry)

    def summary(self) -> dict[str, int]:
        """Return the totals over everything added."""
        return {f"{name}s": self._counts[name] for name in ("file", *_SEVERITIES)}

    def sentence(self, *, has_infos: bool) -> str:
        """Return the summary in one line, for example ``2 runs: 1 complete, 1 torn · 1 warning``."""
        counts, runs = self._counts, sum(self._states.values())
        hint = "" if has_infos else " (see -v)"
        parts = []
        if runs or not counts["foreign"]:
            named = [f"{number} {state}" for state, number in self._states.items() if number]
            named = [named[0].removeprefix("1 ")] if runs == 1 else named
            parts.append(": ".join([counted(runs, "run"), *filter(None, [", ".join(named)])]))
        if counts["foreign"]:
            parts.append(f"{counted(counts['foreign'], 'file')} of another format")
        found = [counted(counts[severity], severity) for severity in _SEVERITIES if counts[severity]]
        parts.append((", ".join(found) or "no findings") + (hint if counts["info"] else ""))
        if self._kept:
            names = some_of(list(dict.fromkeys(self._kept)), _MOST_NAMED)
            parts.append(f"{counted(len(self._kept), 'earlier log')} not checked: {names}")
        if counts["skipped"]:
            parts.append(f"{counted(counts['skipped'], 'file')} of another format skipped{hint}")
        if counts["unreadable"]:
            parts.append(f"{counted(counts['unreadable'], 'path')} could not be read")
        return " · ".join(parts)

    def exit_code(self, *, fail_on: Severity, require_complete: bool) -> int:
        """Return the exit code; a path that could not be read outweighs any finding."""
        if self._counts["unreadable"]:
            return exit_codes.USAGE
        grave = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
        failed = any(self._counts[severity] for severity in grave) or (require_complete and self._is_incomplete)
        return exit_codes.FINDINGS if failed else exit_codes.OK


def check_paths(paths: Sequence[str], options: CheckOptions, verdict: Verdict, *, workers: int | Workers) -> None:
    """Check everything below *paths*."""
    with Progress("checking") as progress:
        for report in iter_runs(paths, options=options, workers=workers, on_progress=progress.on_bytes):
            progress.erase()
            if not isinstance(report, FileReport):
                verdict.other(report)
                continue
            for finding in report.findings:
                verdict.output.finding(report.path, finding)
            verdict.file(report)
