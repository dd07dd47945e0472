"""The level minimal: few questions, at least one for each statement of the page, and one conclusion."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from conformance import registry
from conformance.command import GOOD, USAGE, main
from conformance.corpus import minimal_questions, questions_of, selected
from conformance.probes.question import ROLES
from conformance.statements import is_binding, minimal

ORACLE = f"{sys.executable} -m conformance.oracle"
PAGE = Path(registry.ROOT) / "spec/minimal.md"
MOST_WORDS, MOST_STATEMENTS, MOST_QUESTIONS = 700, 12, 100


def test_page_stays_small() -> None:
    """One reads it in minutes, and it names no statement but those of the level, which are all MUSTs."""
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS
    assert len(minimal()) <= MOST_STATEMENTS
    assert minimal() == set(re.findall(r"\[([a-z-]+/[a-z0-9-]+)\]\(", text))
    assert all(map(is_binding, minimal()))


def test_each_statement_is_asked_in_few_questions() -> None:
    """All are questions to writers."""
    found = minimal_questions(questions_of(list(selected(())), ROLES))
    assert len(found) < MOST_QUESTIONS
    assert {"writer"} == {question.role for question in found}
    asked = {statement for question in found for statement in (*question.case.accepts, *question.case.rejects)}
    assert minimal() <= asked


def test_conclusion_and_badge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer that passes is a minimal emitter, and no more; only writers are asked."""
    monkeypatch.chdir(registry.ROOT)
    badge = tmp_path / "badge.json"
    assert GOOD == main(["--adapter", ORACLE, "--level", "minimal", "--badge", str(badge)])
    assert "conforms as minimal emitter of toy/v1 revision" in capsys.readouterr().out
    assert '"message": "minimal"' in badge.read_text()
    assert USAGE == main(["--adapter", ORACLE, "--level", "minimal", "--role", "reader"])
    assert "asked of writers" in capsys.readouterr().err
