"""SARIF 2.1.0, for code scanning: plain text only, relative addresses only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TextIO
from urllib.parse import quote

from toyspec.core.command_line import paths
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.tally import counted
from toyspec.core.commands.explain import page, shown_severity
from toyspec.core.escaping import printable
from toyspec.core.generated.rules import HELP, LAYER, ORDER, SUMMARY
from toyspec.version import __version__

if TYPE_CHECKING:
    from toyspec.core.checker import Summary
    from toyspec.core.commands.formats import FormatOptions
    from toyspec.core.findings import FileReport, Finding, PathError, Skipped

Level = Literal["error", "warning", "note"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HELP_COLUMNS = 100


class SarifFormat:
    """Writes one run; results are written as they are found."""

    def __init__(self, stream: TextIO) -> None:
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
            "locations": [{"physicalLocation": _location(paths.place(path, finding), finding)}],
        }
        self._stream.write(f"{self._separator}{inert_json(result)}")
        self._separator = ",\n"

    def file(self, report: FileReport) -> None:
        """Keep a note about findings that were counted and not listed."""
        for rule, number in report.suppressed.items():
            text = f"{paths.shown(report.path)}: {counted(number, 'more finding')} of {rule}, counted but not listed"
            self._notifications.append({"level": "note", "message": {"text": text}})

    def error(self, error: PathError) -> None:
        """Keep a path that could not be read for the end."""
        self._readable = False
        text = f"{paths.shown(error.path)}: {printable(error.message)}"
        self._notifications.append({"level": "error", "message": {"text": text}})

    def skipped(self, skipped: Skipped) -> None:
        """Keep a note about a file that is not a run."""
        text = f"{paths.shown(skipped.path)}: skipped, {printable(skipped.message)}"
        self._notifications.append({"level": "note", "message": {"text": text}})

    def end(self, summary: Summary) -> None:  # noqa: ARG002 - SARIF counts by its results
        """Complete the object."""
        invocation: dict[str, Any] = {"executionSuccessful": self._readable}
        if self._notifications:
            invocation["toolExecutionNotifications"] = self._notifications
        self._stream.write(f'],\n"invocations":{inert_json([invocation])},"columnKind":"unicodeCodePoints"}}]}}\n')


def open_format(stream: TextIO, options: FormatOptions) -> SarifFormat:  # noqa: ARG001 - formats have one signature
    """Return the format, writing to *stream*."""
    return SarifFormat(stream)


def relative_address(path: str) -> str:
    """Return *path* as a relative, percent-encoded URI; if it cannot be relative, only its name."""
    if path == "-":
        return "stdin"
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        relative = os.path.basename(path)
    return quote(os.fsencode(relative.replace(os.sep, "/")), safe="/")


def _rule(rule: str) -> dict[str, Any]:
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
