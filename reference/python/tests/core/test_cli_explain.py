from __future__ import annotations

import json
import re

import pytest

from toyspec.core.checker import check_bytes
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.commands.explain import page
from toyspec.core.commands.schema import PROFILES, kinds
from toyspec.core.files import read_resource
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.rule_texts import TEXTS
from toyspec.core.generated.rules import HELP, LAYER, SUMMARY


@pytest.mark.parametrize("rule", SUMMARY)
def test_every_rule_has_a_page(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`toyspec explain` prints a page for every rule, titled with its name, without marks of Markdown or comments."""
    assert main(["explain", rule]) == exit_codes.OK
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == rule
    assert len(shown.splitlines()) > 10
    assert "<!--" not in shown
    assert [] == [line for line in shown.splitlines() if re.match(r"#|\||```", line)]
    assert "**" not in shown


@pytest.mark.parametrize("rule", SUMMARY)
def test_pages_are_wrapped(rule: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of prose is longer than the terminal is wide; code keeps its lines."""
    monkeypatch.setenv("COLUMNS", "60")
    main(["explain", rule])
    lines = capsys.readouterr().out.splitlines()
    assert [] == [line for line in lines if len(line) > 60 and not line.startswith("    ") and " " in line]


def test_list_has_every_rule_under_its_layer(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a rule, all of them are listed by layer with their severity and summary."""
    assert main(["explain"]) == exit_codes.OK
    layer, found = "", {}
    for line in capsys.readouterr().out.splitlines():
        if line in set(LAYER.values()):
            layer = line
        elif line.startswith("  "):
            rule, severity, summary = re.split(r"\s{2,}", line.strip(), maxsplit=2)
            found[rule] = (layer, summary)
            assert severity in {"error", "warning", "info"}
    assert {rule: (LAYER[rule], SUMMARY[rule]) for rule in SUMMARY} == found


def test_help_of_every_rule_is_a_sentence() -> None:
    """What to do is reported for every rule."""
    texts = {rule: [text] if isinstance(text, str) else list(text.values()) for rule, text in HELP.items()}
    assert [] == [rule for rule in SUMMARY if min(map(len, texts[rule])) < 10]


def test_help_of_a_profile_is_its_own() -> None:
    """A metrics log knows no run_resume, so what helps against a step that goes backwards does not name it."""
    entry = b'{"step":2,"wall_time_ms":1.0,"loss":1.0,"grad_norm":1.0,"throughput_samples_per_sec":1.0}\n'
    (finding,) = check_bytes(entry + entry, profile="metrics/v1").findings
    assert "step-goes-backwards" == finding.rule
    assert "run_resume" not in finding.help


@pytest.mark.parametrize("width", [20, 60, 200])
@pytest.mark.parametrize("rule", list(SUMMARY)[::7])
def test_wrapped_page_has_the_words_of_the_page(rule: str, width: int) -> None:
    """Joined again, the lines are the text: no word is lost, and only code is indented."""
    joined: list[str] = []
    for line in page(rule, width):
        goes_on = bool(joined) and bool(joined[-1]) and bool(line) and not line.startswith("    ")
        if goes_on and not joined[-1].startswith("    "):
            assert not line.startswith(" ")
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    expected: list[str] = []
    for name, lines in TEXTS[rule].items():
        expected += ["", name, ""] if expected else [name, ""]
        expected += lines
    assert " ".join(expected).split() == " ".join(joined).split()
    assert [line for line in expected if line.startswith("    ")] == [
        line for line in joined if line.startswith("    ")
    ]


KINDS = [(profile, kind) for profile in PROFILES for kind in kinds(profile)]


@pytest.mark.parametrize(("profile", "kind"), KINDS)
def test_schema_of_every_kind(profile: str, kind: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """`toyspec schema` prints the file of each kind byte for byte, by its short and by its full name."""
    expected = read_resource("schemas", *profile.split("/"), f"{kind}.json")
    for name in (kind, f"{profile}/{kind}"):
        assert main(["schema", name]) == exit_codes.OK
        assert expected == capsysbinary.readouterr().out


def test_short_names_are_unique() -> None:
    """No kind hides another one of the same name in another profile."""
    names = [kind for _, kind in KINDS]
    assert sorted(set(names)) == sorted(names)
    assert set(names) >= set(FIELDS["toy/v1"])


@pytest.mark.parametrize("profile", PROFILES)
def test_bundled_schema(profile: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Its name prints a whole profile as one document without references to others."""
    assert main(["schema", profile]) == exit_codes.OK
    text = capsysbinary.readouterr().out
    assert json.loads(text)["$defs"]
    assert b'"$ref": "urn:' not in text


def test_report_schema(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """The schema of the report can be printed like that of a kind."""
    assert main(["schema", "report"]) == exit_codes.OK
    assert json.loads(capsysbinary.readouterr().out)["title"] == "Report"


def test_list_names_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a kind, all of them are listed."""
    assert main(["schema"]) == exit_codes.OK
    shown = capsys.readouterr().out
    assert [] == [kind for _, kind in KINDS if kind not in shown]
