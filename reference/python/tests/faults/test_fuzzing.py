"""A short run of what ``make fuzz`` does for long."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from faults.differential import Panel, commands
from faults.fuzz import compared
from faults.mutations import mutated, seeds, shrunk
from faults.oracles import examine
from faults.tally import count, scaled


def test_mutated_streams_break_nothing(tmp_path: Path) -> None:
    """Reader, checker, follower and repair keep what they promise for streams that went wrong; a new seed each day."""
    chance = random.Random(int(time.time()) // 86_400)
    for _ in range(scaled(250, 2000)):
        data = mutated(chance)
        count("inputs fuzzed")
        try:
            examine(data, tmp_path, chance)
        except Exception as error:  # noqa: BLE001 - whatever it is, the stream has to be shown
            pytest.fail(f"{data!r} leads to {error!r}")


def test_implementations_agree_about_mutated_streams(tmp_path: Path) -> None:
    """Every implementation that is built gives the same records, states, gaps and findings for the same bytes."""
    number, names, found = compared(scaled(5, 20), int(time.time()) // 86_400, tmp_path)
    count("inputs fuzzed", number)
    assert {"python", "miniature"} <= set(names)
    assert number
    assert [] == found


def test_a_disagreement_is_found_and_shrunk(tmp_path: Path) -> None:
    """An implementation that reads something else is caught, and the stream is cut down to what shows it."""
    with Panel(
        {name: command for name, command in commands(tmp_path).items() if name in {"python", "miniature"}}
    ) as panel:
        honest = panel.ask

        def lying(name: str, request: dict[str, object]) -> dict[str, object]:
            answer = honest(name, request)
            if name == "miniature" and b"NaN" in request["stream"] and "count" in answer:  # type: ignore[operator]
                answer["count"] += 1
            return answer

        panel.ask = lying  # type: ignore[method-assign]
        data = b'{"kind":"note"}\n{"a":NaN}\n{"kind":"step"}\n'

        def has_trouble(candidate: bytes) -> bool:
            return bool(list(panel.disagreements(candidate, "salvage")))

        assert has_trouble(data)
        assert b"NaN" == shrunk(data, has_trouble)


def test_mutations_start_from_the_corpus() -> None:
    """There are many seeds, of every profile, and mutations are the same for the same seed."""
    assert len(seeds()) > 300
    assert [mutated(random.Random(3)) for _ in range(3)] == [mutated(random.Random(3))] * 3
