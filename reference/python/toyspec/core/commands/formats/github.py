"""Workflow commands of GitHub Actions: each finding becomes an annotation of its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TextIO

from toyspec.core.command_line import paths
from toyspec.core.command_line.tally import Tally, counted
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from toyspec.core.checker import Summary
    from toyspec.core.commands.formats import FormatOptions
    from toyspec.core.findings import FileReport, Finding, PathError, Severity, Skipped

Command = Literal["error", "warning", "notice"]

_COMMANDS: dict[Severity, Command] = {"error": "error", "warning": "warning", "info": "notice"}


class GitHubFormat:
    """Shows findings as annotations and the summary as a line."""

    def __init__(self, stream: TextIO, options: FormatOptions) -> None:
        self._stream = stream
        self._options = options
        self._tally = Tally()

    def finding(self, path: str, finding: Finding) -> None:
        """Write one annotation."""
        if self._options.shows(finding.severity):
            message = f"{printable(finding.message)}\nhelp: {printable(finding.help)}"
            properties = {"file": paths.shown(paths.place(path, finding)), "line": str(finding.line)}
            self._command(_COMMANDS[finding.severity], message, properties | {"title": finding.rule})

    def file(self, report: FileReport) -> None:
        """Write a notice about findings that were counted and not listed."""
        self._tally.file(report)
        for rule, number in report.suppressed.items():
            message = f"{counted(number, 'more finding')}, counted but not listed"
            self._command("notice", message, {"file": paths.shown(report.path), "title": rule})

    def error(self, error: PathError) -> None:
        """Write a path that could not be read as an error."""
        self._tally.error()
        message = f"{paths.shown(error.path)}: {printable(error.message)}"
        self._command("error", message, {"title": "path could not be read"})

    def skipped(self, skipped: Skipped) -> None:
        """Write a notice about a file that is not a run, where infos are shown."""
        self._tally.skipped()
        if self._options.shows("info"):
            self._command("notice", printable(skipped.message), {"file": paths.shown(skipped.path), "title": "skipped"})

    def end(self, summary: Summary) -> None:
        """Write the summary as a plain line of the log."""
        sentence = self._tally.sentence(summary, infos=self._options.infos)
        Terminal(self._stream, color="never").line(sentence)

    def _command(self, command: Command, message: str, properties: dict[str, str]) -> None:
        listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        self._stream.write(f"::{command} {listed}::{_data(message)}\n")


def open_format(stream: TextIO, options: FormatOptions) -> GitHubFormat:
    """Return the format, writing to *stream*."""
    return GitHubFormat(stream, options)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
