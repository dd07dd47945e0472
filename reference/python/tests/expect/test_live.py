"""The health rule ``expect``: windows are compared as soon as they are over."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

import pytest

import toyspec
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.expect.bands import expectation_of, shape_of, written

if TYPE_CHECKING:
    from pathlib import Path

STEPS = range(1, 65)


@pytest.mark.parametrize(
    ("changed", "again", "expected"),
    [
        ({}, {}, []),
        ({64: 50.0}, {}, [("begun", 64, "loss is above at steps 1 to 64")]),
        (dict.fromkeys(range(21, 25), 9.5), {}, [("begun", 24, "below at steps 17 to 24"), ("recovered", 28, "")]),
        ({23: nan}, {}, [("begun", 24, "not finite at steps 17 to 24"), ("recovered", 28, "")]),
        (dict.fromkeys(range(21, 24)), {}, [("begun", 25, "missing at steps 21 to 24: 1 v"), ("recovered", 28, "")]),
        # Steps are logged again from 17 on: what is superseded does not count, nor windows that began before.
        ({20: 50.0}, {}, [("begun", 20, ""), ("recovered", 28, "")]),
        ({20: 50.0}, dict.fromkeys(range(17, 65), 10.0), [("begun", 20, ""), ("recovered", 20, "")]),
    ],
)  # fmt: skip
def test_alerts(
    tmp_path: Path, changed: dict[int, float], again: dict[int, float], expected: list[tuple[str, int, str]]
) -> None:
    """The first alerts are where the windows that leave their bands are over, while the run is written and after."""
    with toyspec.start_run(tmp_path, run_id="golden", git=None) as run:
        for step in STEPS:
            run.log({"loss": 10.0}, step=step)
    golden = expectation_of([str(tmp_path / "golden")], shape=shape_of(), choice=DialectChoice())
    (tmp_path / "golden.json").write_bytes(written(golden))
    rule = {"name": "as-before", "type": "expect", "file": str(tmp_path / "golden.json"), "on": "stop"}
    with toyspec.start_run(tmp_path, run_id="new", git=None, health=[rule]) as run:
        for step in range(1, 21) if again else STEPS:
            value = changed.get(step, 10.0)
            if value is not None:
                run.log({"loss": value}, step=step)
        assert run.should_stop or not expected
    if again:
        with toyspec.start_run(tmp_path, run_id="new", exist="resume", from_step=16, git=None, health=[rule]) as run:
            for step, value in again.items():
                run.log({"loss": value}, step=step)
            assert not run.should_stop
    found = toyspec.check_health(tmp_path / "new", [rule])
    assert [each[:2] for each in expected] == [(each.event, each.step) for each in found[: len(expected) or 1]]
    assert all(part in each.text for (_, _, part), each in zip(expected, found, strict=False))
