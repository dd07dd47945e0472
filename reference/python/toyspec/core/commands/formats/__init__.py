"""Forms of a report, one module each; a format's module is imported only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, TextIO, cast

import msgspec

from toyspec.core.command_line.terminal import ColorChoice

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.checker import Summary
    from toyspec.core.findings import FileReport, Finding, PathError, Severity, Skipped

FORMATS: dict[str, str] = {
    "text": "for people",
    "json": "one object, described by `toyspec schema report`",
    "jsonl": "an object for each finding, then one for its file",
    "github": "annotations of a GitHub workflow",
    "sarif": "SARIF 2.1.0, for code scanning",
}

STREAMING = ("text", "jsonl", "github")
"""Formats that show a finding at once, so that they can follow a live stream."""


class FormatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a report for people is shown."""

    color: ColorChoice = "auto"
    infos: Literal["hidden", "shown"] = "hidden"
    detail: Literal["full", "brief"] = "full"
    """brief is one line per finding and nothing else."""

    def shows(self, severity: Severity) -> bool:
        """Return whether findings of *severity* are shown."""
        return severity != "info" or self.infos == "shown"


class ReportFormat(Protocol):
    """A form of a report, written to a stream as the check goes on."""

    def finding(self, path: str, finding: Finding) -> None:
        """Show one finding; every listed finding of a file comes before its ``file``."""

    def file(self, report: FileReport) -> None:
        """Show the verdict on one stream."""

    def error(self, error: PathError) -> None:
        """Show a path that could not be read."""

    def skipped(self, skipped: Skipped) -> None:
        """Show a file that was found and is not a run."""

    def end(self, summary: Summary) -> None:
        """Complete the output."""


def open_format(name: str, stream: TextIO, options: FormatOptions) -> ReportFormat:
    """Return the format *name*, one of FORMATS, writing to *stream*."""
    make = cast(
        "Callable[[TextIO, FormatOptions], ReportFormat]",
        import_module(f"toyspec.core.commands.formats.{name}").open_format,
    )
    return make(stream, options)
