"""The values of one metric: in which order they are kept, and which of them are shown where there are too many."""

from __future__ import annotations

from math import inf, isfinite, nan

from hypothesis import given, settings
from hypothesis import strategies as st

from property_examples import examples
from toyspec.core.runs.curves import Series, common_steps, spread, thinned

STEPS = st.integers(-3, 12)
VALUES = st.sampled_from([0.5, 1.0, 1.5, 2.0, -4.0, inf, -inf, nan])
CURVES = st.lists(st.tuples(STEPS, VALUES), max_size=20)


def read(series: Series) -> dict[int, float | None]:
    """Return the value at each step of *series*, in its order."""
    return {step: series.value(step) for step in series.steps}


def last_values(points: list[tuple[int, float]]) -> dict[int, float | None]:
    """Return the last value of each step in *points*, None where it is not finite, in the order of steps."""
    return {step: value if isfinite(value) else None for step, value in sorted(dict(points).items())}


@given(CURVES)
@settings(max_examples=examples(200))
def test_values_are_in_the_order_of_steps(points: list[tuple[int, float]]) -> None:
    """A repeated step has its last value, and one that is not finite is there without a number."""
    series = Series()
    for step, value in points:
        series.add(step, value if isfinite(value) else None)
    assert list(last_values(points).items()) == list(read(series).items())
    assert {step: step in dict(points) for step in range(-4, 14)} == {step: series.has(step) for step in range(-4, 14)}


@given(CURVES, CURVES)
@settings(max_examples=examples(200))
def test_values_at_once_are_those_one_by_one(first: list[tuple[int, float]], second: list[tuple[int, float]]) -> None:
    """Many values are added as each of them would be, whether or not they follow what is there."""
    series = Series()
    for points in (first, second):
        finite = [(step, value if isfinite(value) else nan) for step, value in points]
        series.add_all([step for step, _ in finite], [value for _, value in finite])
    assert list(last_values(first + second).items()) == list(read(series).items())


def test_common_steps_are_those_of_every_series() -> None:
    """A step that one series lacks is left out."""
    curves = [Series() for _ in range(3)]
    for series, steps in zip(curves, [(1, 2, 3, 5), (2, 3, 4), (0, 2, 3, 5, 8)], strict=True):
        series.add_all(steps, [0.5] * len(steps))
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
