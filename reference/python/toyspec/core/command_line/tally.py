"""The last line of a report for people: how many runs, in which states, with how many findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from toyspec.core.findings import state_text
from toyspec.core.format.profiles import closing_kind
from toyspec.core.reading.run_files import run_of

if TYPE_CHECKING:
    from toyspec.core.checker import Summary
    from toyspec.core.findings import FileReport

_STATES = ("complete", "no end mark", "not ended", "torn", "damaged")
# Of the streams of one run, the last counts: one without an end mark says nothing where another has an end.
_RANKED = ("no end mark", "complete", "not ended", "torn", "damaged")


def counted(number: int, noun: str) -> str:
    """Return *number* with *noun*, in the plural unless it is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Tally:
    """Counts runs by state for one line; a run with two streams has the worse state of both."""

    def __init__(self) -> None:
        self._states: dict[str, int] = dict.fromkeys(_STATES, 0)
        self._without_stream = 0
        self._foreign = 0
        self._skipped = 0
        self._unreadable = 0
        self._run: tuple[str, str] | None = None

    def file(self, report: FileReport) -> None:
        """Count one stream; the streams of a run come one after the other."""
        if report.state is None:
            self._without_stream += 1
            return
        if report.profile is None and report.dialect is None:
            self._foreign += 1
            return
        run = run_of(report.path)
        state = _state_text(report, report.state)
        if self._run is not None and self._run[0] == run:
            self._states[self._run[1]] -= 1
            state = max(state, self._run[1], key=_RANKED.index)
        self._states[state] += 1
        self._run = run, state

    def error(self) -> None:
        """Count one path that could not be read."""
        self._unreadable += 1

    def skipped(self) -> None:
        """Count one file that is not a run."""
        self._skipped += 1

    def sentence(self, summary: Summary, *, infos: Literal["hidden", "shown"]) -> str:
        """Return the line, for example ``2 runs: 1 complete, 1 torn · 1 warning``."""
        others = counted(self._foreign, "file") + " of another format"
        hint = " (see -v)" if infos == "hidden" else ""
        parts = [self._runs()] if self._has_runs() else []
        parts += [others] * bool(self._foreign) + [_findings(summary, infos=infos)]
        parts += [f"{counted(self._skipped, 'file')} of another format skipped{hint}"] * bool(self._skipped)
        if self._unreadable:
            parts.append(f"{counted(self._unreadable, 'path')} could not be read")
        return " · ".join(parts)

    def _has_runs(self) -> bool:
        """Return whether to show a number of runs: not if only files of other formats were named."""
        return not self._foreign or self._without_stream > 0 or any(self._states.values())

    def _runs(self) -> str:
        counts = {**self._states, "without a stream": self._without_stream}
        named = [f"{number} {state}" for state, number in counts.items() if number]
        runs = sum(counts.values())
        if runs == 1:
            named = [named[0].removeprefix("1 ")]
        return f"{counted(runs, 'run')}: {', '.join(named)}" if named else counted(runs, "run")


def _findings(summary: Summary, *, infos: Literal["hidden", "shown"]) -> str:
    counts = ((summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info"))
    named = [counted(number, noun) for number, noun in counts if number]
    if summary.infos and infos == "hidden":
        named[-1] += " (see -v)"
    return ", ".join(named) or "no findings"


def _state_text(report: FileReport, state: str) -> str:
    if report.dialect is not None:
        return state_text(state, report.dialect.ended)
    return state_text(state, "unknown" if closing_kind(report.profile) is None else "yes")
