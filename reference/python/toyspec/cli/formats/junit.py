"""JUnit XML, for systems that show test results: a stream is a test case, and an error or warning fails it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO
from xml.sax.saxutils import escape, quoteattr

from toyspec.cli import paths
from toyspec.cli.formats.tally import counted
from toyspec.escaping import printable

if TYPE_CHECKING:
    from toyspec.checker import Summary
    from toyspec.cli.formats import FormatOptions
    from toyspec.findings import FileReport, Finding, PathError, Skipped


class JUnitFormat:
    """Keeps one test case for each path and writes the document at the end, which begins with their number."""

    def __init__(self, stream: TextIO, options: FormatOptions) -> None:
        self._stream = stream
        self._options = options
        self._lines: list[str] = []
        self._worst = ""
        self._cases: list[str] = []
        self._failures = self._errors = self._skipped = 0

    def finding(self, path: str, finding: Finding) -> None:
        """Keep a finding as a line of its test case."""
        if self._options.shows(finding.severity):
            place = f"{paths.shown(paths.place(path, finding))}:{finding.line}"
            message = f"{printable(finding.message)}; {printable(finding.help)}"
            self._lines.append(f"{place}: {finding.severity} {finding.rule}: {message}")
            if finding.severity == "error" or not self._worst:
                self._worst = finding.severity

    def file(self, report: FileReport) -> None:
        """Add the test case of a stream; only an error makes it fail, other findings are its output."""
        for rule, number in report.suppressed.items():
            self._lines.append(f"{counted(number, 'more finding')} of {rule}, counted but not listed")
        text = escape("\n".join(self._lines))
        inside = ""
        if self._worst == "error":
            self._failures += 1
            inside = (
                f"<failure message={quoteattr(self._lines[0])} type={quoteattr(report.state or '')}>{text}</failure>"
            )
        elif self._lines:
            inside = f"<system-out>{text}</system-out>"
        self._case(report.path, inside)
        self._lines, self._worst = [], ""

    def error(self, error: PathError) -> None:
        """Add a path that could not be read as an error."""
        self._errors += 1
        self._case(error.path, f"<error message={quoteattr(printable(error.message))}/>")

    def skipped(self, skipped: Skipped) -> None:
        """Add a file that is not a run as a skipped test, where infos are shown."""
        if self._options.shows("info"):
            self._skipped += 1
            self._case(skipped.path, f"<skipped message={quoteattr(printable(skipped.message))}/>")

    def _case(self, path: str, inside: str) -> None:
        name = quoteattr(paths.shown(path))
        self._cases.append(f'<testcase classname="toyspec" name={name}>{inside}</testcase>\n')

    def end(self, summary: Summary) -> None:  # noqa: ARG002 - formats have one interface
        """Write the document."""
        counts = f'tests="{len(self._cases)}" failures="{self._failures}" errors="{self._errors}"'
        self._stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        self._stream.write(
            f'<testsuites {counts}>\n<testsuite name="toyspec check" {counts} skipped="{self._skipped}">\n'
        )
        self._stream.write("".join(self._cases) + "</testsuite>\n</testsuites>\n")


def open_format(stream: TextIO, options: FormatOptions) -> JUnitFormat:
    """Return the format, writing to *stream*."""
    return JUnitFormat(stream, options)
