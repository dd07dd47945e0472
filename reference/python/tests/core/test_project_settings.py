"""Settings of a project: toyspec.toml, or a table of pyproject.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_line import toyspec_within as toyspec
from toyspec.core.reading.configuration import ConfigurationError, find_configuration

if TYPE_CHECKING:
    from pathlib import Path


def test_settings_of_a_project(tmp_path: Path) -> None:
    """Own dialects, ignored rules and roots come from toyspec.toml, or from pyproject.toml."""
    (tmp_path / "logs").mkdir()
    log = b'{"u":2,"reward":{"mean":0.5}}\n{"u":1,"reward":{"mean":0.25}}\n'
    (tmp_path / "logs" / "rewards-1.jsonl").write_bytes(log)
    assert b"unknown-format" in toyspec("check", "logs/rewards-1.jsonl", cwd=tmp_path).stdout
    table = 'files = ["rewards*.jsonl"]\nstep = ["u"]\nsteps = "increase"\n'
    settings = f'roots = ["logs"]\nignore = ["step-goes-backwards"]\n[dialects.reward-log]\n{table}'
    (tmp_path / "toyspec.toml").write_text(settings, encoding="utf-8")
    done = toyspec("check", cwd=tmp_path / "logs")
    assert b'rewards-1.jsonl: read as: reward-log dialect, step = "u"' in done.stdout
    assert b"no findings" in done.stdout
    assert b"reward/mean" in toyspec("show", "logs/rewards-1.jsonl", cwd=tmp_path).stdout
    assert b"rewards-1.jsonl" in toyspec("ls", cwd=tmp_path).stdout
    assert b"settings: toyspec.toml" in toyspec("doctor", cwd=tmp_path).stdout
    (tmp_path / "toyspec.toml").unlink()
    (tmp_path / "pyproject.toml").write_text(f"[tool.toyspec.dialects.reward-log]\n{table}", encoding="utf-8")
    assert b"step-goes-backwards" in toyspec("check", "logs", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ('[dialects.a]\nstep = ["s"]\nrecognize = {text = "("}\n', "dialects.a: the regular expression '(' is wrong"),
        ("x = \n", "not TOML"),
        ('ignore = ["nope"]\n', "unknown rule 'nope'"),
    ],
)
def test_wrong_settings(settings: str, fact: str, tmp_path: Path) -> None:
    """A wrong file of settings is a usage error that names the file and the member."""
    (tmp_path / "toyspec.toml").write_text(settings, encoding="utf-8")
    done = toyspec("check", ".", cwd=tmp_path)
    assert 2 == done.returncode
    assert fact in done.stderr.decode()
    assert "toyspec.toml" in done.stderr.decode()


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ("roots = 1\n", "roots must be a list of strings"),
        ("profiles = [1]\n", "profiles must be a list of strings"),
        ("root = []\n", "unknown key 'root'; known are roots, profiles, ignore, dialects, health, alerts"),
        ("dialects = 1\n", "dialects must be a table: [dialects.NAME]"),
        ("[dialects]\na = 1\n", "dialects.a must be a table"),
        ("[dialects.a]\nparts = 1\n", "dialects.a: parts is for dialects that toyspec ships; leave it out"),
        ("[dialects.a]\nstep = 1\n", "dialects.a: Expected `array`, got `int` - at `$.step`"),
        ("[dialects.a]\n", "dialects.a: Object missing required field `step`"),
        ("health = 1\n", "health must be tables: begin each with [[health]]"),
        ("alerts = [1]\n", "alerts must be tables: begin each with [[alerts]]"),
    ],
)
def test_wrong_settings_are_named(settings: str, fact: str, tmp_path: Path) -> None:
    """The message has the file and what must be in it, also in a table of pyproject.toml."""
    path = tmp_path / "toyspec.toml"
    path.write_text(settings, encoding="utf-8")
    (tmp_path / "below").mkdir()
    with pytest.raises(ConfigurationError) as raised:
        find_configuration(str(tmp_path / "below"))
    assert f"{path}: {fact}" == str(raised.value)


def test_nearest_settings_count(tmp_path: Path) -> None:
    """Roots and profiles are beside the file, addresses are kept; a pyproject.toml without the table is passed over."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (below / "pyproject.toml").write_text("[tool.other]\nroots = 1\n", encoding="utf-8")
    settings = '[tool.toyspec]\nroots = ["runs", "s3://b/runs"]\nprofiles = ["p"]\nignore = ["run-end-missing"]\n'
    (tmp_path / "a" / "pyproject.toml").write_text(settings, encoding="utf-8")
    found = find_configuration(str(below))
    beside = tmp_path / "a"
    assert (str(beside / "pyproject.toml"), (str(beside / "runs"), "s3://b/runs")) == (found.path, found.roots)
    assert ((str(beside / "p"),), ("run-end-missing",)) == (found.profiles, found.ignore)
