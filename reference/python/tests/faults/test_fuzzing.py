"""A short run of what ``nox -s fuzz`` does for long."""

from __future__ import annotations

import os
import platform
import random
import sys
from pathlib import Path

import pytest

from conformance.drawn import mutated, seeds
from faults.guiding import FUZZERS, MAX_SEEDS, MissingToolError, guided
from faults.oracles import examine
from faults.tally import count, scaled

SEED = 1
"""The same streams each time: what fails says something about the change. `nox -s fuzz` draws new ones."""


def test_mutated_streams_break_nothing(tmp_path: Path) -> None:
    """Reader, checker, follower and repair keep what they promise for streams that went wrong."""
    chance = random.Random(SEED)
    for _ in range(scaled(250, 2000)):
        data = mutated(chance)
        count("inputs fuzzed")
        try:
            examine(data, tmp_path, chance)
        except Exception as error:  # noqa: BLE001 - whatever it is, the stream has to be shown
            pytest.fail(f"{data!r} leads to {error!r}")


_INPUTS = {"python": 1000, "c": 3000, "rust": 6000}
"""What each does in a few seconds."""


@pytest.mark.parametrize("name", FUZZERS)
def test_mutations_that_follow_coverage_break_nothing(name: str) -> None:
    """Where the code is that no other stream has reached, the same holds as everywhere."""
    try:
        outcome = guided(name, inputs=scaled(1, 10) * _INPUTS[name], seed=SEED)
    except MissingToolError as missing:
        if os.environ.get("CI") and sys.platform == "linux" and platform.machine() == "x86_64":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    count("inputs fuzzed", outcome.inputs)
    assert "" == outcome.failure
    assert outcome.inputs > MAX_SEEDS // 2


def test_mutations_start_from_the_corpus() -> None:
    """There are many seeds, of every profile, and mutations are the same for the same seed."""
    assert len(seeds()) > 300
    assert [mutated(random.Random(3)) for _ in range(3)] == [mutated(random.Random(3))] * 3
