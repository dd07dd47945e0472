"""What the tools of an agent answer about fixed runs, as data: ``tool_answers.jsonl``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/agents/test_run_tools.py`` writes the answers again; read the
difference.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import toyspec
from fixed_runs import fixed_runs
from toyspec.agents.digest import UNTRUSTED, LogPlace, count_tokens, cursor_of, places_of
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


@pytest.mark.posix
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


def wide(root: Path) -> list[str]:
    """Write runs with very many settings, tags and metrics; return their names."""
    names = [f"w{at:02}" for at in range(50)]
    for at, name in enumerate(names):
        config = {f"k{number}": f"{at}-{number}-" + "v" * 400 for number in range(8)}
        with toyspec.start_run(root, run_id=name, config=config, tags=[f"tag {at} " * 20] * 20, git=None) as run:
            run.log({"loss": float(at), **{f"layer{number}/norm": 1.0 for number in range(60)}}, step=1)
    return names


def test_answers_have_a_bound_and_a_cursor_for_the_rest(tmp_path: Path) -> None:
    """Of the widest runs no tool answers more tokens than asked, and by its cursors nothing is twice or missing."""
    names = wide(tmp_path)
    with open(tmp_path / names[0] / "events.jsonl", "ab") as file:
        file.write(b"{\n" * 90)
    tools = RunTools(str(tmp_path))
    assert count_tokens(tools.digest(names, tokens=4000)) <= 4000
    for ask, part, most, whole in (
        (partial(tools.list_runs, limit=200), "runs", 4000, 50),
        (partial(tools.list_runs, limit=7), "runs", 4000, 50),
        (partial(tools.compare, names), "settings_that_differ", 4000, 8),
        (partial(tools.curve, names[0]), "points", 300, 1),
        (partial(tools.findings, names[0]), "findings", 400, 90),
    ):
        found: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            text = ask(tokens=most, cursor=cursor)
            assert count_tokens(text) <= most
            answer = json.loads(text)
            found += answer[part]
            assert answer["more"] >= 0
            cursor = answer.get("cursor")
        assert whole == len(found) == len(set(map(json.dumps, found)))
    with pytest.raises(ValueError, match="tokens is 10; it must be at least"):
        tools.list_runs(tokens=10)
    with pytest.raises(ValueError, match="is not a cursor"):
        tools.list_runs(cursor="-1")


def test_curve_has_a_range_and_lines(tmp_path: Path) -> None:
    """Points are those from one step to another, each with the line of its record."""
    with toyspec.start_run(tmp_path, run_id="a", git=None) as run:
        for step in range(1, 10):
            run.log({"loss": step / 2}, step=step)
    answer = json.loads(RunTools(str(tmp_path)).curve("a", from_step=3, to_step=4))
    assert [[3, 1.5, 4], [4, 2.0, 5]] == answer["points"]


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
