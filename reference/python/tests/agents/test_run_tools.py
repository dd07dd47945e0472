"""What the tools of an agent answer about fixed runs, as data: ``tool_answers.jsonl``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/agents/test_run_tools.py`` writes the answers again; read the
difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fixed_runs import fixed_runs
from toyspec.agents.digest import UNTRUSTED, LogPlace, cursor_of, places_of
from toyspec.agents.run_tools import RunTools
from toyspec.core.errors import ExpressionError, ToyspecError

RUNS = fixed_runs("more")
ANSWERS = Path(__file__).parents[1].joinpath("tool_answers.jsonl")
QUESTIONS: list[dict[str, Any]] = [json.loads(line) for line in ANSWERS.read_bytes().splitlines()]


def answered(question: dict[str, Any]) -> dict[str, Any]:
    """Return *question* with its answer: the object after the mark of untrusted text, or the error."""
    asked = {key: question[key] for key in ("tool", "arguments")}
    try:
        text = getattr(RunTools(str(RUNS)), asked["tool"])(**asked["arguments"])
    except (ToyspecError, ValueError) as error:
        return asked | {"error": str(error).replace(str(RUNS), "RUNS")}
    answer = json.loads(text.replace(str(RUNS), "RUNS"))
    assert answer.pop("untrusted") == UNTRUSTED
    assert text.isascii()
    return asked | {"answer": answer}


@pytest.mark.skipif(os.name == "nt", reason="the answers have paths")
@pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda each: f"{each['tool']} {list(each['arguments'].values())}"[:50]
)
def test_answer_is_the_one_that_was_read(question: dict[str, Any]) -> None:
    """Runs, numbers, counts of what is left out, and errors are those of ``tool_answers.jsonl``."""
    assert question == answered(question)


def test_filter_that_cannot_be_read_is_refused_without_runs(tmp_path: Path) -> None:
    """An empty folder says nothing about a filter."""
    with pytest.raises(ExpressionError, match="a value was expected after <"):
        RunTools(str(tmp_path)).list_runs(where="lr <")


def test_cursor_is_read_as_it_was_written() -> None:
    """Places come back, and what no digest wrote is refused."""
    places = [LogPlace(12, "0a1b2c"), LogPlace(0, "ffffff"), LogPlace(10**18 - 1, "0a1b2c")]
    assert places == places_of(cursor_of(places))
    assert "c1-12.0a1b2c-0.ffffff" == cursor_of(places[:2])
    for text in ("", "c1", "c2-1.0a1b2c", "c1-1.0A1b2c", "c1-01.0a1b2c", f"c1-{'9' * 18}.0a1b2c9"):
        with pytest.raises(ValueError, match="is not a cursor; give one that a digest printed, unchanged"):
            places_of(text)


if os.environ.get("TOYSPEC_UPDATE"):
    ANSWERS.write_text("".join(json.dumps(answered(each)) + "\n" for each in QUESTIONS), encoding="utf-8")
