"""Which values of a metric are shown where there are too many."""

from __future__ import annotations

from math import inf, isfinite, nan

from hypothesis import given, settings
from hypothesis import strategies as st

from property_examples import examples
from toyspec.core.runs.curves import thinned

VALUES = st.sampled_from([0.5, 1.0, 1.5, 2.0, -4.0, inf, -inf, nan])


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
