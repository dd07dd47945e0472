"""Forms of a report: for people, as JSON, for GitHub, and for code scanning."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

import msgspec

from toyspec.core.command_line.figures import counted, place, shown
from toyspec.core.command_line.objects import file_object, finding_object, inert_json, path_object, verdict_object
from toyspec.core.command_line.tables import cut, cut_start, width, wrapped
from toyspec.core.command_line.terminal import ColorChoice, Terminal, columns
from toyspec.core.escaping import encodable, printable, printable_bytes
from toyspec.core.findings import state_text
from toyspec.core.format.profiles import closing_kind
from toyspec.core.generated.limits import EXCERPT_BYTES
from toyspec.core.generated.rules import HELP, LAYER, ORDER, STREAM_MISSING, SUMMARY
from toyspec.core.reading.run_files import run_of
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.checker import Summary
    from toyspec.core.findings import DialectUse, Excerpt, FileReport, Finding, PathError, Severity, Skipped


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
    return _FORMS[name](stream, options)


_STATES = ("complete", "no end mark", "not ended", "torn", "damaged")
# Of the streams of one run, the last counts: one without an end mark says nothing where another has an end.
_RANKED = ("no end mark", "complete", "not ended", "torn", "damaged")


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


# Width of excerpts where the output is not a terminal.
_PIPED_COLUMNS = 120
_LEAST_COLUMNS = 40
_INDENT = "    "


class TextFormat:
    """Shows findings as text."""

    def __init__(self, stream: TextIO, options: FormatOptions) -> None:
        self._terminal = terminal = Terminal(stream, color=options.color)
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
        file = shown(place(path, finding))
        self._headline(file if finding.rule == STREAM_MISSING else f"{file}:{finding.line}", finding)
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
            self._read_as(shown(report.path), report.dialect)
        for rule, number in report.suppressed.items():
            if rule in self._shown_rules:
                more = counted(number, "more finding")
                self._terminal.line(f"{shown(report.path)}: {rule}  {more}, counted but not listed")
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
        message = self._terminal.styled(printable(error.message), "error")
        self._terminal.line(f"{shown(error.path)}: {message}")

    def skipped(self, skipped: Skipped) -> None:
        """Name a file that is not a run, where infos are shown."""
        self._tally.skipped()
        if self._options.shows("info"):
            self._terminal.line(f"{shown(skipped.path)}: skipped  {printable(skipped.message)}")

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
            properties = {"file": shown(place(path, finding)), "line": str(finding.line)}
            self._command(_COMMANDS[finding.severity], message, properties | {"title": finding.rule})

    def file(self, report: FileReport) -> None:
        """Write a notice about findings that were counted and not listed."""
        self._tally.file(report)
        for rule, number in report.suppressed.items():
            message = f"{counted(number, 'more finding')}, counted but not listed"
            self._command("notice", message, {"file": shown(report.path), "title": rule})

    def error(self, error: PathError) -> None:
        """Write a path that could not be read as an error."""
        self._tally.error()
        message = f"{shown(error.path)}: {printable(error.message)}"
        self._command("error", message, {"title": "path could not be read"})

    def skipped(self, skipped: Skipped) -> None:
        """Write a notice about a file that is not a run, where infos are shown."""
        self._tally.skipped()
        if self._options.shows("info"):
            self._command("notice", printable(skipped.message), {"file": shown(skipped.path), "title": "skipped"})

    def end(self, summary: Summary) -> None:
        """Write the summary as a plain line of the log."""
        sentence = self._tally.sentence(summary, infos=self._options.infos)
        Terminal(self._stream, color="never").line(sentence)

    def _command(self, command: Command, message: str, properties: dict[str, str]) -> None:
        listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        self._stream.write(f"::{command} {listed}::{_data(message)}\n")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class JsonFormat:
    """Writes a report so that memory does not grow with the number of files."""

    def __init__(self, stream: TextIO, _: FormatOptions) -> None:
        self._stream = stream
        self._errors: list[dict[str, Any]] = []
        self._skipped: list[dict[str, Any]] = []
        self._separator = "\n"
        stream.write(f'{{"toyspec":{inert_json(__version__)},"files":[')

    def finding(self, path: str, finding: Finding) -> None:
        """Do nothing: findings are written with their file."""

    def file(self, report: FileReport) -> None:
        """Write one file's report on a line of its own."""
        self._stream.write(f"{self._separator}{inert_json(file_object(report))}")
        self._separator = ",\n"

    def error(self, error: PathError) -> None:
        """Keep a path that could not be read for the end."""
        self._errors.append(path_object(error))

    def skipped(self, skipped: Skipped) -> None:
        """Keep a file that is not a run for the end."""
        self._skipped.append(path_object(skipped))

    def end(self, summary: Summary) -> None:
        """Complete the object."""
        others = f'"errors":{inert_json(self._errors)},\n"skipped":{inert_json(self._skipped)}'
        self._stream.write(f'],\n{others},\n"summary":{inert_json(summary)}}}\n')


class JsonLinesFormat:
    """Writes objects that name their ``type``: finding, file, error, skipped or summary."""

    def __init__(self, stream: TextIO, _: FormatOptions) -> None:
        self._stream = stream

    def finding(self, path: str, finding: Finding) -> None:
        """Write one finding with the path of its stream."""
        self._write("finding", {"path": encodable(path)} | finding_object(finding))

    def file(self, report: FileReport) -> None:
        """Write the verdict on one stream, without its findings."""
        self._write("file", verdict_object(report))

    def error(self, error: PathError) -> None:
        """Write a path that could not be read."""
        self._write("error", path_object(error))

    def skipped(self, skipped: Skipped) -> None:
        """Write a file that is not a run."""
        self._write("skipped", path_object(skipped))

    def end(self, summary: Summary) -> None:
        """Write the summary."""
        self._write("summary", msgspec.structs.asdict(summary))

    def _write(self, kind: str, content: dict[str, Any]) -> None:
        self._stream.write(f"{inert_json({'type': kind} | content)}\n")


Level = Literal["error", "warning", "note"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HELP_COLUMNS = 100


class SarifFormat:
    """Writes one run; results are written as they are found."""

    def __init__(self, stream: TextIO, _: FormatOptions) -> None:
        self._stream = stream
        self._notifications: list[dict[str, Any]] = []
        self._readable = True
        self._separator = "\n"
        driver = {"name": "toyspec", "version": __version__, "rules": [_rule(rule) for rule in SUMMARY]}
        head = {"$schema": _SCHEMA, "version": "2.1.0"}
        stream.write(f'{inert_json(head)[:-1]},"runs":[{{"tool":{{"driver":\n{inert_json(driver)}}},\n"results":[')

    def finding(self, path: str, finding: Finding) -> None:
        """Write one result."""
        result = {
            "ruleId": finding.rule,
            # The rules of a project are not those that the driver lists.
            **({"ruleIndex": ORDER[finding.rule]} if finding.rule in ORDER else {}),
            "level": _level(finding.severity),
            "message": {"text": f"{printable(finding.message)}; {printable(finding.help)}"},
            "locations": [{"physicalLocation": _location(place(path, finding), finding)}],
        }
        self._stream.write(f"{self._separator}{inert_json(result)}")
        self._separator = ",\n"

    def file(self, report: FileReport) -> None:
        """Keep a note about findings that were counted and not listed."""
        for rule, number in report.suppressed.items():
            text = f"{shown(report.path)}: {counted(number, 'more finding')} of {rule}, counted but not listed"
            self._notifications.append({"level": "note", "message": {"text": text}})

    def error(self, error: PathError) -> None:
        """Keep a path that could not be read for the end."""
        self._readable = False
        text = f"{shown(error.path)}: {printable(error.message)}"
        self._notifications.append({"level": "error", "message": {"text": text}})

    def skipped(self, skipped: Skipped) -> None:
        """Keep a note about a file that is not a run."""
        text = f"{shown(skipped.path)}: skipped, {printable(skipped.message)}"
        self._notifications.append({"level": "note", "message": {"text": text}})

    def end(self, summary: Summary) -> None:  # noqa: ARG002 - SARIF counts by its results
        """Complete the object."""
        invocation: dict[str, Any] = {"executionSuccessful": self._readable}
        if self._notifications:
            invocation["toolExecutionNotifications"] = self._notifications
        self._stream.write(f'],\n"invocations":{inert_json([invocation])},"columnKind":"unicodeCodePoints"}}]}}\n')


def relative_address(path: str) -> str:
    """Return *path* as a relative, percent-encoded URI; if it cannot be relative, only its name."""
    # Imported here: start-up time counts.
    from urllib.parse import quote

    if path == "-":
        return "stdin"
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        relative = os.path.basename(path)
    return quote(os.fsencode(relative.replace(os.sep, "/")), safe="/")


def _rule(rule: str) -> dict[str, Any]:
    # Imported here: start-up time counts.
    from toyspec.core.commands.explain import page, shown_severity

    severity, _ = shown_severity(rule)
    return {
        "id": rule,
        "shortDescription": {"text": SUMMARY[rule]},
        "fullDescription": {"text": f"{SUMMARY[rule]}; {_help(rule)}"},
        "help": {"text": "\n".join(page(rule, _HELP_COLUMNS))},
        "defaultConfiguration": {"level": _level(severity)},
        "properties": {"tags": [LAYER[rule]]},
    }


def _help(rule: str) -> str:
    text = HELP[rule]
    return text if isinstance(text, str) else "; ".join(dict.fromkeys(text.values()))


def _level(severity: str) -> Level:
    return "error" if severity == "error" else "warning" if severity == "warning" else "note"


def _location(path: str, finding: Finding) -> dict[str, Any]:
    return {
        "artifactLocation": {"uri": relative_address(path), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": finding.line, "byteOffset": finding.offset, "byteLength": 0},
    }


_FORMS: dict[str, Callable[[TextIO, FormatOptions], ReportFormat]] = {
    "text": TextFormat,
    "json": JsonFormat,
    "jsonl": JsonLinesFormat,
    "github": GitHubFormat,
    "sarif": SarifFormat,
}
