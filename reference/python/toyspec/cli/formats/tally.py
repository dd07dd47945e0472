"""The last line of a report for people: how many runs, in which states, with how many findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from toyspec.checker import Summary
    from toyspec.findings import FileReport

_STATES = ("complete", "torn", "damaged")


def counted(number: int, noun: str) -> str:
    """Return *number* with *noun*, in the plural unless it is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Tally:
    """Counts the states of streams and says them in one line."""

    def __init__(self) -> None:
        self._states: dict[str | None, int] = dict.fromkeys(_STATES, 0)
        self._unreadable = 0

    def file(self, report: FileReport) -> None:
        """Count one stream."""
        self._states[report.state] = self._states.get(report.state, 0) + 1

    def error(self) -> None:
        """Count one path that could not be read."""
        self._unreadable += 1

    def sentence(self, summary: Summary, *, infos: Literal["hidden", "shown"]) -> str:
        """Return the line, for example ``2 runs: 1 complete, 1 torn · 1 warning``."""
        parts = [self._runs(summary.files), _findings(summary, infos=infos)]
        if self._unreadable:
            parts.append(f"{counted(self._unreadable, 'path')} could not be read")
        return " · ".join(parts)

    def _runs(self, files: int) -> str:
        named = [f"{number} {state}" for state, number in self._states.items() if number and state]
        if self._states.get(None):
            named.append(f"{self._states[None]} without a stream")
        if files == 1 and len(named) == 1:
            named = [named[0].removeprefix("1 ")]
        return f"{counted(files, 'run')}: {', '.join(named)}" if named else counted(files, "run")


def _findings(summary: Summary, *, infos: Literal["hidden", "shown"]) -> str:
    counts = ((summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info"))
    named = [counted(number, noun) for number, noun in counts if number]
    if summary.infos and infos == "hidden":
        named[-1] += " (see -v)"
    return ", ".join(named) or "no findings"
