from __future__ import annotations

import json
import re

import pytest

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.commands.schema import PROFILES, kinds
from toyspec.core.files import read_resource
from toyspec.core.generated.fields import FIELDS
from toyspec.core.generated.rule_texts import TEXTS
from toyspec.core.generated.rules import SUMMARY


@pytest.mark.parametrize("rule", SUMMARY)
def test_every_rule_has_a_page(rule: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is titled with its rule, is wrapped to the terminal, but for code, and has no marks of Markdown."""
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["explain", rule]) == exit_codes.OK
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert rule == lines[0]
    assert len(lines) > 10
    assert not re.search(r"^#|^\||^```|<!--|\*\*", shown, re.MULTILINE)
    assert [] == [line for line in lines if len(line) > 60 and not line.startswith("    ") and " " in line]
    texts = [part for name, text in TEXTS[rule].items() for part in (name, *text)]
    assert " ".join(texts).split() == shown.split()


KINDS = [(profile, kind) for profile in PROFILES for kind in kinds(profile)]


def test_short_names_are_unique() -> None:
    """No kind hides another one of the same name in another profile."""
    names = [kind for _, kind in KINDS]
    assert sorted(set(names)) == sorted(names)
    assert set(names) >= set(FIELDS["toy/v1"])


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("rules", ("rules.json",)),
        ("limits", ("limits.json",)),
        ("media-types", ("media.json",)),
        *((f"{profile}/stream", (*profile.split("/"), "stream.json")) for profile in PROFILES),
    ],
)
def test_tables(name: str, path: tuple[str, ...], capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """`toyspec schema` prints the tables that no JSON Schema has, byte for byte, and lists them."""
    assert main(["schema", name]) == exit_codes.OK
    assert read_resource("schemas", *path) == capsysbinary.readouterr().out
    assert main(["schema"]) == exit_codes.OK
    assert name.encode() in capsysbinary.readouterr().out


@pytest.mark.parametrize("profile", PROFILES)
def test_schemas_of_a_profile(profile: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """`toyspec schema` prints the file of each kind, by its short and full name, and a profile as one document."""
    for kind in kinds(profile):
        expected = read_resource("schemas", *profile.split("/"), f"{kind}.json")
        for name in (kind, f"{profile}/{kind}"):
            assert main(["schema", name]) == exit_codes.OK
            assert expected == capsysbinary.readouterr().out
    assert main(["schema", profile]) == exit_codes.OK
    text = capsysbinary.readouterr().out
    assert json.loads(text)["$defs"]
    assert b'"$ref": "urn:' not in text
