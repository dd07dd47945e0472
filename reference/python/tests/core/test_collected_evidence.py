"""What is collected while a run begins: the revision that is known late, uncommitted changes, what is printed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from toyspec.core.writing import environment, evidence
from toyspec.core.writing.companions import Companion
from toyspec.core.writing.environment import package_versions, uncommitted_changes
from toyspec.core.writing.evidence import Console, ConsoleLog, Diff


class Run:
    """A run that keeps what it is asked to record."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.artifacts = str(directory), list[tuple[str, dict[str, str]]]()

    def artifact(self, path: str, **members: str) -> None:
        """Keep the members of the record of *path*."""
        self.artifacts.append((path, members))


def finished(run: Any, companion: Companion) -> None:
    """Let *companion* go along with *run*, and end it."""
    companion.started(run).ending()


def test_uncommitted_changes_are_kept_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a file of the bundle that the log names; without changes there is neither."""
    run, asked = Run(tmp_path), list[int]()
    changes = '-lr = 1\n+lr = 2\n+api_key = "sk-abcdefghijklmnopqrstuvwxyz0123"\n'

    def changed(most: int) -> str:
        asked.append(most)
        return changes

    monkeypatch.setattr(evidence, "uncommitted_changes", changed)
    finished(run, Diff())
    finished(run, Diff())
    text = (tmp_path / "changes.diff").read_text()
    assert text.startswith("-lr = 1\n+lr = 2\n+api_key = ")
    assert "sk-abc" not in text
    assert [("changes.diff", {"role": "diff", "media_type": "text/x-diff"})] == run.artifacts
    assert [1 << 20] * 2 == asked


def test_changes_end_with_a_whole_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most as many bytes as asked for, of tracked text files, and None where nothing has changed."""
    asked: list[tuple[str, ...]] = []

    def git(*words: str) -> str:
        asked.append(words)
        return "aäöü"

    monkeypatch.setattr(environment, "_repository", lambda start: start)
    monkeypatch.setattr(environment, "ask_git", git)
    assert [None, "a", "aä", "aäöü"] == [uncommitted_changes(most) or None for most in (0, 2, 4, 100)]
    assert {(".", "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv")} == set(asked)
    monkeypatch.setattr(environment, "ask_git", lambda *_: "")
    assert uncommitted_changes(9) is None


def test_file_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The training goes on without it."""
    monkeypatch.setattr(evidence, "uncommitted_changes", lambda _: "+a\n")
    (tmp_path / "changes.diff").mkdir()
    finished(Run(tmp_path), Diff())
    path = tmp_path / "changes.diff"
    assert f"toyspec: {path}: a directory, not a regular file; it is not kept\n" == capsys.readouterr().err


def test_what_is_printed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both streams go on as before, their text is in the file in its order, and what a forked child prints is not."""
    run, pid = Run(tmp_path), os.getpid()
    out, err = sys.stdout, sys.stderr
    begun: Any = run
    collected = Console().started(begun)
    sys.stdout.write("begun\n")
    sys.stderr.write("a warning\n")
    sys.stdout.writelines(["one\n", "two\n"])
    assert (5, out.encoding) == (sys.stdout.write("three"), sys.stdout.encoding)
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    sys.stdout.write("of a child\n")
    monkeypatch.undo()
    collected.ending()
    assert (out, err) == (sys.stdout, sys.stderr)
    assert "begun\na warning\none\ntwo\nthree" == (tmp_path / "console.log").read_text()
    assert [("console.log", {"role": "console", "media_type": "text/plain"})] == run.artifacts


def test_streams_that_another_has_replaced_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that replaces a stream meanwhile keeps its own; one without streams has nothing to keep."""
    run: Any = Run(tmp_path)
    log = ConsoleLog(run)
    ours: Any = sys.stdout
    monkeypatch.setattr(sys, "stdout", ours.stream)
    log.ending()
    assert ours.stream is sys.stdout
    log.ending()
    assert ["console.log"] == [path for path, _ in run.artifacts]
    monkeypatch.setattr(sys, "stderr", None)
    second = ConsoleLog(run)
    assert ["stdout"] == list(second._streams)
    second.ending()


def test_output_that_cannot_be_kept_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program prints as before; a file that fails later is kept no more."""
    (tmp_path / "console.log").mkdir()
    run: Any = Run(tmp_path)
    log = ConsoleLog(run)
    assert f"toyspec: {tmp_path / 'console.log'}: Is a directory; what the program prints is not kept\n" == (
        capsys.readouterr().err
    )
    log.ending()
    assert ([], {}) == (run.artifacts, log._streams)
    (tmp_path / "b").mkdir()
    run = Run(tmp_path / "b")
    log = ConsoleLog(run)
    assert log._file is not None
    log._file.close()
    log.add("lost")
    log.add("lost")
    log.ending()
    assert [] == run.artifacts


RENAMED = {"ignite": "pytorch-ignite", "sklearn": "scikit-learn"}
"""Packages that are called otherwise than their module."""

FRAMEWORKS = (
    "accelerate clu datasets deepspeed flax ignite jax keras lightgbm lightning numpy optax optuna peft "
    "pytorch_lightning ray sklearn skorch stable_baselines3 tensorflow torch torch_xla torchtitan transformers trl "
    "xgboost"
)


def test_versions_of_the_frameworks_that_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is named as it is installed, with the version that it says, else with that of its distribution."""
    expected = {}
    for at, module in enumerate(FRAMEWORKS.split()):
        name = RENAMED.get(module, module.replace("_", "-"))
        monkeypatch.setitem(sys.modules, module, type("Module", (), {"__version__": f"{at}.0"} if at % 2 else {}))
        expected[name] = f"{at}.0" if at % 2 else f"of {name}"
    monkeypatch.setattr(environment, "_installed_version", lambda name: f"of {name}")
    found = package_versions()
    assert (".".join(map(str, sys.version_info[:3])), True) == (found.pop("python"), bool(found.pop("toyspec")))
    assert expected == found
