"""The values of one metric: in which order they are kept, and which of them are shown where there are too many."""

from __future__ import annotations

import json
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from property_examples import examples
from toyspec.core.runs.curves import common_steps, spread, thinned
from toyspec.core.runs.history import points_of
from toyspec.core.runs.summary import summarize_run

if TYPE_CHECKING:
    from pathlib import Path

STEPS = st.integers(0, 12)
VALUES = st.sampled_from([0.5, 1.0, 1.5, 2.0, -4.0, inf, -inf, nan])
CURVES = st.lists(st.tuples(STEPS, VALUES), max_size=20)


@pytest.mark.parametrize("engine", ["python", ""])
@given(CURVES)
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_points_are_in_the_order_of_steps(tmp_path: Path, engine: str, points: list[tuple[int, float]]) -> None:
    """A repeated step has its last value, and one that is not finite is there without a number."""
    path = tmp_path / "events.jsonl"
    events: list[dict[str, Any]] = [{"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}]
    for number, (step, value) in enumerate(points):
        values = {"acc": value if isfinite(value) else None}
        events.append({"kind": "scalars", "t": number + 1.0, "step": step, "values": values})
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOYSPEC_ENGINE", engine)
        found = points_of(summarize_run(str(path)), "acc")
    last = {step: value if isfinite(value) else None for step, value in sorted(dict(points).items())}
    assert list(last.items()) == list(found.items())


def test_common_steps_are_those_of_every_series() -> None:
    """A step that one series lacks is left out."""
    curves = [dict.fromkeys(steps, 0.5) for steps in [(1, 2, 3, 5), (2, 3, 4), (0, 2, 3, 5, 8)]]
    assert [2, 3] == common_steps(curves)
    assert [1, 2, 3, 5] == common_steps(curves[:1])


@given(st.lists(VALUES, max_size=30), st.integers(2, 9))
@settings(max_examples=examples(300))
def test_thinned_values_keep_the_lowest_and_the_highest_of_each_part(values: list[float], most: int) -> None:
    """Parts are equal to within one value, and no spike of any of them is lost."""
    points = list(enumerate(values))
    kept = thinned(points, most)
    if len(points) <= most:
        assert points == kept
        return
    parts = most // 2
    expected: list[tuple[int, float]] = []
    for part in range(parts):
        of_part = points[len(points) * part // parts : len(points) * (part + 1) // parts]
        shown = sorted((point for point in of_part if isfinite(point[1])), key=lambda point: point[1]) or of_part[:1]
        highest = next(point for point in shown if not shown[-1][1] > point[1])
        expected += sorted({shown[0], highest})
    assert [at for at, _ in expected] == [at for at, _ in kept]
    assert [points[at] for at, _ in kept] == kept


def test_spread_steps_begin_and_end_where_all_do() -> None:
    """The others have the same distance, but for what rounding leaves."""
    steps = [3, 4, 6, 7, 9, 20, 21]
    shown = {number: spread(steps, number) for number in (1, 2, 3, 4, 6, 7, 9)}
    assert {
        1: [3],
        2: [3, 21],
        3: [3, 7, 21],
        4: [3, 6, 9, 21],
        6: [3, 4, 6, 7, 9, 21],
        7: steps,
        9: steps,
    } == shown
