"""The core of the corpus: its questions exist, are few, and are asked first where each costs a start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance import first_questions, registry
from conformance.command import BAD, GOOD, main
from conformance.corpus import questions_of, selected
from conformance.probes.question import ROLES
from conformance.revisions import CURRENT
from conformance.tests.adapters_for_tests import HEAD, program

pytestmark = pytest.mark.slow

ORACLE = f"{sys.executable} -m conformance.oracle"


def test_core_names_questions_of_the_corpus() -> None:
    """Each name of the core is a question; a case that is renamed or deleted has to leave it."""
    assert set() == set(first_questions.names()) - {question.name for question in questions_of(selected(()), ROLES)}


def test_core_is_small_and_has_every_role() -> None:
    """The core takes a second or two, and asks each role one question before it asks any a second one."""
    assert 100 < len(first_questions.names()) < 1000
    few, rest = first_questions.parts(ROLES, CURRENT)
    assert sorted(first_questions.names()) == sorted(question.name for question in (*few, *rest))
    assert set(ROLES) == {question.role for question in few[: len(ROLES)]}


def test_few_questions_are_loaded_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the roles, the first part has questions for them, and no more cases than questions are loaded."""
    loaded: list[str] = []

    def noted(load: Callable[..., Any], folder: str, *root: str) -> Any:
        loaded.append(folder)
        return load(folder, *root)

    for name in ("load_folder", "load_session"):
        monkeypatch.setattr(first_questions, name, partial(noted, getattr(first_questions, name)))
    for role in ROLES:
        loaded.clear()
        few = next(first_questions.parts([role], CURRENT))
        assert {role} == {question.role for question in few}
        assert len(loaded) <= len(few) <= 16


@pytest.mark.parametrize("mode", ["lines", "oneshot"])
def test_core_alone(mode: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At the level quick, only its questions are asked, and no conformance is claimed."""
    monkeypatch.chdir(registry.ROOT)
    arguments = ["--adapter", ORACLE, "--level", "quick", "--role", "canonical-writer", "--mode", mode]
    assert GOOD == main(arguments)
    assert "no failure in the selected part of the corpus" in capsys.readouterr().out


def test_core_is_asked_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that is started for each question shows a failure of the core before the other questions are loaded."""
    crash = HEAD.replace("sys.exit(oneshot(oracle, sys.argv[2], sys.argv[3:]))", "sys.exit(3)")
    adapter = " ".join(program(tmp_path, "", head=crash))
    topic = first_questions.names()[0].partition(" [")[0].rpartition("/")[0]
    assert BAD == main(["--adapter", adapter, "--mode", "oneshot", "--select", topic, "--jobs", "1"])
    assert capsys.readouterr().out.splitlines()[0].removeprefix("ERROR  ") in first_questions.names()
