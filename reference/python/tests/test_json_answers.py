"""What commands print with --json is what the schemas of answers describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import toyspec
from command_line import toyspec_within
from toyspec.resources import read_resource


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with two runs of which one has not ended, with settings that only one of them has."""
    with toyspec.start_run(tmp_path / "runs", run_id="a", config={"lr": 0.1, "max_steps": 4}) as run:
        for step in range(4):
            run.step(loss=float("nan") if step == 1 else 1.0 / (step + 1))
    with toyspec.start_run(
        tmp_path / "runs", run_id="b", config={"lr": None, "max_steps": 8, "é\u202e": "\x1b[0m"}
    ) as run:
        run.step(loss=2.0)
        run.step(loss=0.5)
        run.abandon()
    return tmp_path


def described(name: str) -> dict[str, Any]:
    """Return the schema *name* of an answer."""
    found: dict[str, Any] = json.loads(read_resource("schemas", "answers", "v1", f"{name}.json"))
    jsonschema.Draft202012Validator.check_schema(found)
    return found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("compare", ["compare", "runs/a", "runs/b", "--json"]),
        ("digest", ["digest", "runs/a", "runs/b", "--json"]),
        ("rules", ["explain", "--json"]),
        ("rules", ["explain", "step-goes-backwards", "--json"]),
    ],
)
def test_answer_is_what_its_schema_describes(name: str, words: list[str], runs: Path) -> None:
    """It is inert text too, whatever the log has in it."""
    result = toyspec_within(*words, cwd=runs)
    assert (0, True) == (result.returncode, result.stdout.isascii())
    found = json.loads(result.stdout)
    assert [] == [error.message for error in jsonschema.Draft202012Validator(described(name)).iter_errors(found)]


def test_comparison_has_each_value_of_the_logs(runs: Path) -> None:
    """Null in a log differs from a setting that is not there, and a loss that was not finite is null."""
    found = json.loads(toyspec_within("compare", "runs/a", "runs/b", "--json", cwd=runs).stdout)
    settings = {each["name"]: each for each in found["settings"]}
    assert {"name": "config.lr", "values": [0.1, None]} == settings["config.lr"]
    assert [False, True] == settings["config.é\u202e"]["is_set"]
    assert [{"step": 1, "values": [1.0, 2.0]}, {"step": 2, "values": [None, 0.5]}] == found["points"]
    assert [("yes", 4), ("no", 2)] == [(each["ended"], each["last_step"]) for each in found["runs"]]
