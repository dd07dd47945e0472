"""The run of the trainer in the corpus is the one that the trainer writes today."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf", reason="the extra `train` is not installed")

from toyspec.core.command_line.main import main
from toyspec.core.files import resource_path
from trainer_golden import FILES, golden_run, lines

RELATIVE = 1e-3
"""Processors differ in the last bits of a sum, and fp16 weights make that larger."""


def assert_alike(expected: Any, actual: Any, place: str) -> None:
    """Fail unless both are equal: keys in their order, integers and text exactly, floats to RELATIVE."""
    assert type(expected) is type(actual), place
    if isinstance(expected, dict):
        assert list(expected) == list(actual), place
        for key, value in expected.items():
            assert_alike(value, actual[key], f"{place}/{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(actual), place
        for index, value in enumerate(expected):
            assert_alike(value, actual[index], f"{place}/{index}")
    elif isinstance(expected, float):
        assert math.isclose(expected, actual, rel_tol=RELATIVE), f"{place}: {expected} and {actual}"
    else:
        assert expected == actual, place


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run, trained again."""
    return golden_run(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("case", FILES)
def test_corpus_has_what_the_trainer_writes(run: Path, case: str) -> None:
    """Every file of the run is that of the corpus, but for the last digits of measured numbers."""
    for name in FILES[case]:
        kept = Path(resource_path("conformance", "cases", *case.split("/"), name))
        assert_alike(lines(kept), lines(run / name), name)


def test_golden_run_passes_the_strictest_check(run: Path) -> None:
    """The run is complete and has neither an error nor a warning, in the corpus and trained again."""
    kept = [resource_path("conformance", "cases", *case.split("/")) for case in FILES]
    assert 0 == main(["check", "--require-complete", "--fail-on", "warning", str(run), *kept])


@pytest.mark.parametrize(
    ("expected", "actual"),
    [({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1.0], [1.002]), ([1], [1.0]), (["x"], ["y"]), ([1], [1, 2]), ([1], [2])],
)
def test_difference_is_noticed(expected: Any, actual: Any) -> None:
    """The comparison fails on another order of keys, type, length, text, integer, or a float too far away."""
    with pytest.raises(AssertionError):
        assert_alike(expected, actual, "")
