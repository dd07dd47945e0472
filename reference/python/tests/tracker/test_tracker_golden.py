"""The runs of the tracker in the corpus are those that the tracker writes today."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from logged_runs import differences
from toyspec.core.files import resource_path
from tracker_golden import RUNS, golden_run

SHOWN = 2e-3
"""A number on the console has been rounded besides."""

NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[+-]\d+)?")


def numbers(text: str) -> list[float]:
    """Return the numbers that *text* shows."""
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def kept(name: str, file: str) -> str:
    """Return a file of the run *name* in the corpus."""
    path = resource_path("conformance", "cases", "toy-v1", "golden", name, file)
    return Path(path).read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run, written again."""
    root = tmp_path_factory.mktemp("golden")
    golden_run(request.param, root)
    return root / str(request.param)


def test_corpus_has_what_the_tracker_writes_and_shows(run: Path) -> None:
    """Every record and every line of the console is that of the corpus, but for the last digits of numbers."""
    expected = [json.loads(line) for line in kept(run.name, "events.jsonl").splitlines()]
    actual = [json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [] == differences(expected, actual)
    shown, shows = kept(run.name, "console.txt"), (run / "console.txt").read_text(encoding="utf-8")
    assert NUMBER.sub("0", shown) == NUMBER.sub("0", shows)
    assert numbers(shown) == pytest.approx(numbers(shows), rel=SHOWN, abs=SHOWN)
