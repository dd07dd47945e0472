from __future__ import annotations

import json

import pytest

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.commands.schema import PROFILES, kinds
from toyspec.core.files import read_resource
from toyspec.core.generated.fields import FIELDS

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
    """--bundled prints a whole profile as one document without references to others."""
    assert main(["schema", "--bundled", profile]) == exit_codes.OK
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
