"""What functions of the library return about fixed runs, as data: ``library_answers.jsonl``, alike with both engines.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/test_library_answers.py`` writes the answers again; read the
difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import toyspec
from fixed_runs import fixed_runs
from toyspec.core.errors import ToyspecError

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = fixed_runs("more")
ANSWERS = Path(__file__).with_name("library_answers.jsonl")
QUESTIONS: list[dict[str, Any]] = [json.loads(line) for line in ANSWERS.read_bytes().splitlines()]


def _history(run: Path, arguments: dict[str, Any]) -> Any:
    found = toyspec.history(run, **arguments)
    return {name: list(column) for name, column in found.items()} | {"damaged_bytes": found.damaged_bytes}


def _run(run: Path, _: dict[str, Any]) -> Any:
    found = toyspec.open_run(run)
    facts = msgspec.structs.replace(found.facts, path="", stream="")
    return [msgspec.to_builtins(facts), found.config, found.records().report.state]


def _records(run: Path, arguments: dict[str, Any]) -> Any:
    with toyspec.read(run, mode="salvage", **arguments) as reading:
        records = [[each.line, each.kind, each.step, each.time, each.phase, each.attempt] for each in reading]
        report = reading.report
    gaps = [[gap.line, gap.offset, gap.length, gap.reason, gap.message] for gap in report.gaps]
    return records, gaps, report.state, report.fragment_bytes


ASKED: dict[str, Callable[[Path, dict[str, Any]], Any]] = {
    "history": _history,
    "read": _records,
    "open_run": _run,
}


def answered(question: dict[str, Any]) -> str:
    """Return *question* with its answer as JSON, in which NaN is equal to NaN."""
    asked = {key: question[key] for key in ("of", "run", "arguments")}
    try:
        found = {"answer": ASKED[asked["of"]](RUNS / asked["run"], asked["arguments"])}
    except (ToyspecError, ValueError) as error:
        found = {"error": str(error).replace(str(RUNS), "RUNS")}
    return json.dumps(asked | found)


@pytest.mark.posix
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: " ".join(map(str, (each["of"], each["run"]))))
def test_answer_is_the_one_that_was_read(question: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, places, order and errors are those of ``library_answers.jsonl``."""
    for engine in ("python", ""):
        monkeypatch.setenv("TOYSPEC_ENGINE", engine)
        assert json.dumps(question) == answered(question)


if os.environ.get("TOYSPEC_UPDATE"):
    ANSWERS.write_text("".join(answered(each) + "\n" for each in QUESTIONS), encoding="utf-8")
