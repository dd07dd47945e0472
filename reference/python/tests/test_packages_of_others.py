"""Packages of others: the example of the page brings a command and a format, and a broken one says whose it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from toyspec.convert import export_runs, import_runs
from toyspec.core.command_line.main import main

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/extend-with-a-package.md"


@pytest.fixture
def points(install_package: Callable[..., None]) -> None:
    """Install the package that the page shows."""
    project, command, converter = re.findall(r"^```(?:toml|py)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    install_package(
        "toyspec-points",
        tomllib.loads(project)["project"]["entry-points"],
        {
            "toyspec_points/__init__.py": "",
            "toyspec_points/longest.py": command,
            "toyspec_points/format.py": converter,
        },
    )


@pytest.mark.usefixtures("points")
def test_example_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its format is imported and exported, with the line that is none counted, and its command reads the run."""
    source, runs, out = tmp_path / "a.points", tmp_path / "runs", tmp_path / "points"
    source.write_text("1 0.5\n2 nan\nx\n3 0.25\n")
    assert 1 == main(["import", str(source), "--out", str(runs)])
    (imported,) = import_runs(source, runs).runs
    assert ("points", "done-before", 4, 3) == (imported.format, imported.status, imported.items, imported.carried)
    assert 0 == main(["longest", str(runs)])
    assert f"{imported.run_id}: step 3" == capsys.readouterr().out.splitlines()[-1]
    (exported,) = export_runs("points", runs, out).runs
    assert "1 0.5\n2 nan\n3 0.25\n" == (out / f"{exported.run_id}.points").read_text()
    assert ["no-place"] == [loss.cause for loss in exported.losses]


@pytest.mark.usefixtures("points")
def test_help_and_completion_have_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It stands after ours, with its package."""
    assert 0 == main(["--help"])
    assert "  longest     of the package toyspec-points 1.0\n" in capsys.readouterr().out
    assert 0 == main(["longest", "--help"])
    assert "Print the run below DIR that has come furthest." in capsys.readouterr().out
    assert 0 == main(["completion", "bash"])
    assert "longest" in capsys.readouterr().out


def test_broken_package_says_whose_it_is(
    tmp_path: Path, install_package: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own command fails with a sentence; ours, also of the same name, do not."""
    broken = {"lost": "lost_module", "ls": "lost_module"}
    install_package("lost", {"toyspec.commands": broken}, {"lost_module.py": "import nothing_of_this_name\n"})
    assert 2 == main(["lost"])
    fact = "lost, of lost 1.0, cannot be loaded: No module named 'nothing_of_this_name'"
    assert fact in capsys.readouterr().err
    assert 0 == main(["ls", str(tmp_path)])
    assert 0 == main(["--help"])
    assert 2 == main(["los"])
    assert "did you mean" in capsys.readouterr().err


def test_broken_package_stops_no_other_log(
    tmp_path: Path, install_package: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader and a format that cannot be loaded are reported once, and what ours know is read and imported."""
    groups = {f"toyspec.{group}": {"lost": "lost_module"} for group in ("readers", "converters")}
    install_package("lost", groups, {"lost_module.py": "import nothing_of_this_name\n"})
    (tmp_path / "logs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "logs" / f"{name}.jsonl").write_text('{"step":1,"loss":2.5}\n{"step":2,"loss":2.25}\n')
    assert 0 == main(["import", str(tmp_path / "logs"), "--out", str(tmp_path / "runs")])
    assert 0 == main(["ls", str(tmp_path / "logs"), str(tmp_path / "runs")])
    assert 2 == main(["export", "lost", str(tmp_path / "runs"), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert 2 == said.count("lost, of lost 1.0, cannot be loaded: No module named 'nothing_of_this_name'")
    assert "'lost' is not a format to export to" in said
