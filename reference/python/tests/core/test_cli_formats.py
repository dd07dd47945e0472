from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from fixed_runs import fixed_runs
from toyspec.core.checker import check
from toyspec.core.command_line.main import main
from toyspec.core.command_line.objects import inert_json
from toyspec.core.commands.report_formats import FORMATS, FormatOptions, open_format
from toyspec.core.commands.verdicts import Verdict
from toyspec.core.files import read_resource
from toyspec.core.findings import FileReport, Finding, PathError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = fixed_runs("runs")


def finding(**changes: Any) -> Finding:
    """Return a finding with *changes*."""
    usual: dict[str, Any] = {
        "rule": "invalid-json",
        "severity": "error",
        "line": 3,
        "offset": 40,
        "pointer": "",
        "message": "a fact",
        "help": "a remedy",
    }
    return Finding(**(usual | changes))


def report(path: str = "runs/a/events.jsonl", findings: Sequence[Finding] = (), **changes: Any) -> FileReport:
    """Return a report on *path*."""
    usual: dict[str, Any] = {
        "path": path,
        "profile": "toy/v1",
        "state": "damaged",
        "valid": not findings,
        "records": 1,
        "bytes": 50,
        "findings": list(findings),
        "suppressed": {},
    }
    return FileReport(**(usual | changes))


def formatted(style: str, *items: FileReport | PathError, options: FormatOptions | None = None) -> str:
    """Return the output of the format *style* for *items*."""
    stream = io.StringIO()
    output = open_format(style, stream, options or FormatOptions())
    verdict = Verdict(output)
    for item in items:
        if isinstance(item, PathError):
            verdict.other(item)
            continue
        for each in item.findings:
            output.finding(item.path, each)
        verdict.file(item)
    output.end(verdict)
    return stream.getvalue()


def run(style: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of the format *style* for all runs that serve as examples, and a path that is not there."""
    main(["check", "--format", style, str(RUNS), str(RUNS / "nowhere")])
    return capsys.readouterr().out


def report_validator() -> jsonschema.Draft202012Validator:
    """Return a validator by the schema of the report."""
    return jsonschema.Draft202012Validator(json.loads(read_resource("schemas", "report", "v1", "report.json")))


def test_json_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON report is valid by the report schema and says what the library says."""
    shown = json.loads(run("json", capsys))
    report_validator().validate(shown)
    expected = check(RUNS, RUNS / "nowhere")
    assert [file.path for file in expected.files] == [file["path"] for file in shown["files"]]
    assert [file.state for file in expected.files] == [file["state"] for file in shown["files"]]
    found = [(item.rule, item.offset, item.pointer) for file in expected.files for item in file.findings]
    assert found == [
        (item["rule"], item["offset"], item["pointer"]) for file in shown["files"] for item in file["findings"]
    ]
    assert {"files": 6, "errors": 2, "warnings": 2, "infos": 1} == shown["summary"]
    assert 1 == len(shown["errors"])


@pytest.mark.parametrize(
    "item",
    [
        report(findings=[finding(pointer='/a"\x00\u2028\ud800', message="\udcff", sidecar="run.json")]),
        report("a\udcff\n", profile=None, state=None, suppressed={"invalid-json": 7}),
        PathError("b\udcff", "no"),
    ],
    ids=["finding", "file", "error"],
)
def test_json_of_strange_values_follows_its_schema(item: FileReport | PathError) -> None:
    """Names that are not text, and every optional member, give a report that is valid by its schema."""
    shown = formatted("json", item)
    assert shown.isascii()
    report_validator().validate(json.loads(shown))


def test_json_without_files() -> None:
    """A report on nothing is complete JSON."""
    shown = json.loads(formatted("json"))
    report_validator().validate(shown)
    assert [] == shown["files"]


@pytest.mark.parametrize("value", ["plain", "é\x00\x1f\x7f\x80\u202e\u2028𝄞\uffff", {"\u009b": ["\n"]}])
def test_inert_json_is_the_same_value(value: Any) -> None:
    """The escapes of inert JSON change nothing for a parser, and nothing but printable ASCII is left."""
    text = inert_json(value)
    assert value == json.loads(text)
    assert text.isascii()
    assert text.isprintable()


def test_github_commands_are_encoded() -> None:
    """What ends a property, a command or a line is encoded in every part of a workflow command."""
    item = report("a,b:c%\r\nd", [finding(message="50%: a,b::c", help="x%0Ay", severity="warning")])
    first, _ = formatted("github", item).splitlines()
    assert "::warning file=a%2Cb%3Ac%25\\x0d\\x0ad,line=3,title=invalid-json::50%25: a,b::c%0Ahelp: x%250Ay" == first


def test_github_shows_infos_on_request() -> None:
    """An info is a notice, and only where infos are asked for."""
    item = report(findings=[finding(rule="unknown-key", severity="info")])
    assert "::" not in formatted("github", item)
    assert "::notice " in formatted("github", item, options=FormatOptions(infos="shown"))


def test_github_names_what_is_not_listed() -> None:
    """Findings that are only counted, and paths that cannot be read, are reported too."""
    shown = formatted("github", report(suppressed={"step-skipped": 7}), PathError("x", "gone")).splitlines()
    assert "::notice file=runs/a/events.jsonl,title=step-skipped::7 more findings, counted but not listed" == shown[0]
    assert "::error title=path could not be read::x: gone" == shown[1]


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_takes_every_severity(style: str) -> None:
    """No format fails on any severity, a missing stream or an empty report."""
    severities = [finding(severity=severity) for severity in ("error", "warning", "info")]
    assert formatted(style, report(findings=severities), report(profile=None, state=None), PathError("x", "y"))
