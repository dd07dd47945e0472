"""Forms of a report: for people, as JSON, and for GitHub."""

from __future__ import annotations

from codecs import utf_8_decode
from typing import TYPE_CHECKING, TextIO

import msgspec

from toyspec.core.command_line.figures import counted, place, shown
from toyspec.core.command_line.objects import file_object, inert_json
from toyspec.core.command_line.tables import cut, cut_start, width, wrapped
from toyspec.core.command_line.terminal import ColorChoice, Terminal, columns
from toyspec.core.escaping import printable, printable_bytes
from toyspec.core.findings import PathError
from toyspec.core.generated.limits import EXCERPT_BYTES
from toyspec.core.generated.rules import ORDER, STREAM_MISSING
from toyspec.version import __version__

if TYPE_CHECKING:
    from toyspec.core.commands.verdicts import Verdict
    from toyspec.core.findings import Excerpt, FileReport, Finding, Severity, Skipped


FORMATS: dict[str, str] = {
    "text": "for people",
    "json": "one object, described by `toyspec schema report`",
    "github": "annotations of a GitHub workflow",
}


class FormatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a report for people is shown."""

    color: ColorChoice = "auto"
    has_infos: bool = False
    is_brief: bool = False
    """One line per finding and nothing else."""

    def shows(self, severity: Severity) -> bool:
        """Return whether findings of *severity* are shown."""
        return severity != "info" or self.has_infos


class ReportFormat:
    """A form of a report, written to a stream as the check goes on."""

    def __init__(self, stream: TextIO, options: FormatOptions) -> None:
        self._stream = stream
        self._options = options

    def finding(self, path: str, finding: Finding) -> None:
        """Show one finding; every listed finding of a file comes before its ``file``."""

    def file(self, report: FileReport) -> None:
        """Show the verdict on one stream."""

    def other(self, entry: PathError | Skipped) -> None:
        """Show a path that could not be read, or a file that is not a run."""

    def end(self, verdict: Verdict) -> None:
        """Complete the output; *verdict* is the one on everything."""


# Width of excerpts where the output is not a terminal.
_PIPED_COLUMNS = 120
_LEAST_COLUMNS = 40
_INDENT = "    "
_CONTINUATION = bytes(range(0x80, 0xC0))


class TextFormat(ReportFormat):
    """Shows findings as text; the help of a rule is shown once."""

    def __init__(self, stream: TextIO, options: FormatOptions) -> None:
        super().__init__(stream, options)
        self._terminal = Terminal(stream, color=options.color)
        self._columns = max(columns() if self._terminal.interactive else _PIPED_COLUMNS, _LEAST_COLUMNS)
        self._helped: set[str] = set()
        self._shown_rules: set[str] = set()

    def finding(self, path: str, finding: Finding) -> None:
        """Show one finding."""
        if not self._options.shows(finding.severity):
            return
        self._shown_rules.add(finding.rule)
        file = shown(place(path, finding))
        self._headline(file if finding.rule == STREAM_MISSING else f"{file}:{finding.line}", finding)
        if self._options.is_brief:
            return
        if finding.excerpt is not None:
            self._excerpt(finding.line, finding.excerpt)
        if finding.rule not in self._helped:
            self._helped.add(finding.rule)
            more = f"; `toyspec explain {finding.rule}`" if finding.rule in ORDER else ""
            self._wrapped(f"{_INDENT}help: {printable(finding.help)}{more}", _INDENT + " " * len("help: "))

    def file(self, report: FileReport) -> None:
        """Show how many findings were counted and not listed, and how the log of another program was read."""
        path, use = shown(report.path), report.dialect
        if use is not None and not self._options.is_brief:
            self._terminal.line(f"{path}: {use.sentence}")
            if use.choice == "guessed" and "read as" not in self._helped:
                self._helped.add("read as")
                self._terminal.line(
                    f"{_INDENT}help: name the key with --step-key if this is wrong, or add a dialect to toyspec.toml"
                )
        for rule, number in report.suppressed.items():
            if rule in self._shown_rules:
                self._terminal.line(f"{path}: {rule}  {_more(number)}, counted but not listed")
        self._shown_rules.clear()

    def other(self, entry: PathError | Skipped) -> None:
        """Show a path that could not be read, and where infos are shown, a file that is not a run."""
        message = printable(entry.message)
        if isinstance(entry, PathError):
            self._terminal.line(f"{shown(entry.path)}: {self._terminal.styled(message, 'error')}")
        elif self._options.shows("info"):
            self._terminal.line(f"{shown(entry.path)}: skipped  {message}")

    def end(self, verdict: Verdict) -> None:
        """Write the summary."""
        if not self._options.is_brief:
            self._wrapped(verdict.sentence(has_infos=self._options.has_infos), _INDENT)

    def _headline(self, where: str, finding: Finding) -> None:
        plain = f"{where}: {finding.rule}"
        styled = f"{self._terminal.styled(where, 'strong')}: {self._terminal.styled(finding.rule, finding.severity)}"
        first, *others = self._lines(f"{plain}  {printable(finding.message)}", _INDENT)
        self._terminal.line(styled + first.removeprefix(plain) if first.startswith(plain) else first)
        self._terminal.lines(others)

    def _wrapped(self, text: str, indent: str) -> None:
        self._terminal.lines(self._lines(text, indent))

    def _lines(self, text: str, indent: str) -> list[str]:
        """Return *text* in lines; only for a terminal it is wrapped, so that none is cut within a word."""
        return wrapped(text, self._columns, indent) if self._terminal.interactive else [text]

    def _excerpt(self, line: int, excerpt: Excerpt) -> None:
        gutter = f"{_INDENT}{line} | "
        before, after = _visible(excerpt, self._columns - len(gutter))
        bar = self._terminal.styled("|", "dim")
        self._terminal.line(f"{_INDENT}{self._terminal.styled(str(line), 'dim')} {bar} {before}{after}")
        caret = self._terminal.styled(f"^ byte {excerpt.mark}", "error")
        self._terminal.line(f"{_INDENT}{' ' * len(str(line))} {bar} {' ' * width(before)}{caret}")


def _more(number: int) -> str:
    return counted(number, "more finding")


def _visible(excerpt: Excerpt, room: int) -> tuple[str, str]:
    """Return what to show before and from the mark, together at most *room* columns."""
    at = excerpt.mark - excerpt.start
    head, tail = excerpt.data[:at], excerpt.data[at:]
    # No part of a character that was cut off is shown.
    before = "…" + printable_bytes(head.lstrip(_CONTINUATION)) if excerpt.start else printable_bytes(head)
    is_cut = len(excerpt.data) >= EXCERPT_BYTES
    after = printable(utf_8_decode(tail, "backslashreplace", not is_cut)[0]) + "…" * is_cut
    # Half of the room is for the text after the mark, if there is as much.
    before = cut_start(before, room - min(width(after), room // 2))
    return before, cut(after, room - width(before))


class GitHubFormat(ReportFormat):
    """Shows findings as annotations and the summary as a line."""

    def finding(self, path: str, finding: Finding) -> None:
        """Write one annotation."""
        if self._options.shows(finding.severity):
            level = "notice" if finding.severity == "info" else finding.severity
            message = f"{printable(finding.message)}\nhelp: {printable(finding.help)}"
            line = str(finding.line)
            self._command(level, message, file=shown(place(path, finding)), line=line, title=finding.rule)

    def file(self, report: FileReport) -> None:
        """Write a notice about findings that were counted and not listed."""
        for rule, number in report.suppressed.items():
            self._command("notice", f"{_more(number)}, counted but not listed", file=shown(report.path), title=rule)

    def other(self, entry: PathError | Skipped) -> None:
        """Write a path that could not be read as an error, and where infos are shown, a notice about other files."""
        message, path = printable(entry.message), shown(entry.path)
        if isinstance(entry, PathError):
            self._command("error", f"{path}: {message}", title="path could not be read")
        elif self._options.shows("info"):
            self._command("notice", message, file=path, title="skipped")

    def end(self, verdict: Verdict) -> None:
        """Write the summary as a plain line of the log."""
        Terminal(self._stream, color="never").line(verdict.sentence(has_infos=self._options.has_infos))

    def _command(self, command: str, message: str, **properties: str) -> None:
        self._stream.write(workflow_command(command, message, **properties) + "\n")


def workflow_command(command: str, message: str, **properties: str) -> str:
    """Return the line that a GitHub workflow takes as an annotation: ``error``, ``warning`` or ``notice``."""
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class JsonFormat(ReportFormat):
    """Writes a report so that memory does not grow with the number of files; findings are written with their file."""

    def __init__(self, stream: TextIO, options: FormatOptions) -> None:
        super().__init__(stream, options)
        self._errors: list[PathError | Skipped] = []
        self._skipped: list[PathError | Skipped] = []
        self._separator = "\n"
        stream.write(f'{{"toyspec":{inert_json(__version__)},"files":[')

    def file(self, report: FileReport) -> None:
        """Write one file's report on a line of its own."""
        self._stream.write(f"{self._separator}{inert_json(file_object(report))}")
        self._separator = ",\n"

    def other(self, entry: PathError | Skipped) -> None:
        """Keep it for the end."""
        (self._errors if isinstance(entry, PathError) else self._skipped).append(entry)

    def end(self, verdict: Verdict) -> None:
        """Complete the object."""
        others = f'"errors":{inert_json(self._errors)},\n"skipped":{inert_json(self._skipped)}'
        self._stream.write(f'],\n{others},\n"summary":{inert_json(verdict.summary())}}}\n')


FORMS: dict[str, type[ReportFormat]] = {
    "text": TextFormat,
    "json": JsonFormat,
    "github": GitHubFormat,
}
"""The class of each of FORMATS."""
