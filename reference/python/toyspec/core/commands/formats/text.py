"""The form for people: a line for each finding, its place in the stream, what to do, and a line of totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from toyspec.core.command_line import paths
from toyspec.core.command_line.columns import cut, cut_start, width, wrapped
from toyspec.core.command_line.tally import Tally, counted
from toyspec.core.command_line.terminal import Terminal, columns
from toyspec.core.escaping import printable, printable_bytes
from toyspec.core.generated.limits import EXCERPT_BYTES
from toyspec.core.generated.rules import ORDER, STREAM_MISSING

if TYPE_CHECKING:
    from toyspec.core.checker import Summary
    from toyspec.core.commands.formats import FormatOptions
    from toyspec.core.findings import DialectUse, Excerpt, FileReport, Finding, PathError, Skipped

# Width of excerpts where the output is not a terminal.
_PIPED_COLUMNS = 120
_LEAST_COLUMNS = 40
_INDENT = "    "


class TextFormat:
    """Shows findings as text."""

    def __init__(self, terminal: Terminal, options: FormatOptions) -> None:
        self._terminal = terminal
        self._options = options
        self._columns = max(columns() if terminal.interactive else _PIPED_COLUMNS, _LEAST_COLUMNS)
        self._tally = Tally()
        self._helped: set[str] = set()
        self._shown_rules: set[str] = set()

    def finding(self, path: str, finding: Finding) -> None:
        """Show one finding; the help of a rule is shown once."""
        if not self._options.shows(finding.severity):
            return
        self._shown_rules.add(finding.rule)
        place = paths.shown(paths.place(path, finding))
        self._headline(place if finding.rule == STREAM_MISSING else f"{place}:{finding.line}", finding)
        if self._options.detail == "brief":
            return
        if finding.excerpt is not None:
            self._excerpt(finding.line, finding.excerpt)
        if finding.rule not in self._helped:
            self._helped.add(finding.rule)
            self._help(finding)

    def file(self, report: FileReport) -> None:
        """Show how many findings were counted and not listed, and how the log of another program was read."""
        self._tally.file(report)
        if report.dialect is not None and self._options.detail != "brief":
            self._read_as(paths.shown(report.path), report.dialect)
        for rule, number in report.suppressed.items():
            if rule in self._shown_rules:
                more = counted(number, "more finding")
                self._terminal.line(f"{paths.shown(report.path)}: {rule}  {more}, counted but not listed")
        self._shown_rules.clear()

    def _read_as(self, path: str, use: DialectUse) -> None:
        self._terminal.line(f"{path}: {use.sentence}")
        if use.choice == "guessed" and "read as" not in self._helped:
            self._helped.add("read as")
            self._terminal.line(
                f"{_INDENT}help: name the key with --step-key if this is wrong, or add a dialect to toyspec.toml"
            )

    def error(self, error: PathError) -> None:
        """Show a path that could not be read."""
        self._tally.error()
        shown = self._terminal.styled(printable(error.message), "error")
        self._terminal.line(f"{paths.shown(error.path)}: {shown}")

    def skipped(self, skipped: Skipped) -> None:
        """Name a file that is not a run, where infos are shown."""
        self._tally.skipped()
        if self._options.shows("info"):
            self._terminal.line(f"{paths.shown(skipped.path)}: skipped  {printable(skipped.message)}")

    def end(self, summary: Summary) -> None:
        """Write the summary."""
        if self._options.detail != "brief":
            for line in self._lines(self._tally.sentence(summary, infos=self._options.infos), _INDENT):
                self._terminal.line(line)

    def _headline(self, where: str, finding: Finding) -> None:
        plain = f"{where}: {finding.rule}"
        styled = f"{self._terminal.styled(where, 'strong')}: {self._terminal.styled(finding.rule, finding.severity)}"
        first, *others = self._lines(f"{plain}  {printable(finding.message)}", _INDENT)
        self._terminal.line(styled + first.removeprefix(plain) if first.startswith(plain) else first)
        for line in others:
            self._terminal.line(line)

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

    def _help(self, finding: Finding) -> None:
        more = f"; `toyspec explain {finding.rule}`" if finding.rule in ORDER else ""
        text = f"{_INDENT}help: {printable(finding.help)}{more}"
        for line in self._lines(text, _INDENT + " " * len("help: ")):
            self._terminal.line(line)


def open_format(stream: TextIO, options: FormatOptions) -> TextFormat:
    """Return the format, writing to *stream*."""
    return TextFormat(Terminal(stream, color=options.color), options)


def _visible(excerpt: Excerpt, room: int) -> tuple[str, str]:
    """Return what to show before and from the mark, together at most *room* columns."""
    at = excerpt.mark - excerpt.start
    head, tail = excerpt.data[:at], excerpt.data[at:]
    before = ("…" if excerpt.start else "") + printable_bytes(_whole_start(head) if excerpt.start else head)
    cut_here = len(excerpt.data) >= EXCERPT_BYTES
    after = printable_bytes(_whole_end(tail) if cut_here else tail) + ("…" if cut_here else "")
    # Half of the room is for the text after the mark, if there is as much.
    before = cut_start(before, room - min(width(after), room // 2))
    return before, cut(after, room - width(before))


def _whole_start(data: bytes) -> bytes:
    """Return *data* without the rest of a character that was cut at its start."""
    return data.lstrip(bytes(range(0x80, 0xC0))) if data[:1] > b"\x7f" else data


def _whole_end(data: bytes) -> bytes:
    """Return *data* without the part of a character that was cut at its end."""
    for length in range(1, min(4, len(data) + 1)):
        lead = data[-length]
        if lead >= 0xC0:
            wanted = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return data[:-length] if wanted > length else data
        if lead < 0x80:
            break
    return data
