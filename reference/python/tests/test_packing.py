"""The compiled engine makes the buckets of curves, and halves and packs them, as plain Python does."""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.view.curve_store import Packing
from toyspec.view.pyramids import EnginePyramid, Pyramid, new_pyramid

if TYPE_CHECKING:
    from toyspec.view.pyramids import Buckets

pytestmark = pytest.mark.usefixtures("compiled_engine")

NUMBERS = st.floats(-1e9, 1e9) | st.sampled_from([nan, inf, 1e308, -1e308, 0.0, -0.0, 1.5])


def pair(most: int) -> tuple[Pyramid, EnginePyramid]:
    """Return an empty pyramid of each kind."""
    made = new_pyramid(most)
    assert isinstance(made, EnginePyramid)
    return Pyramid(most), made


def shown(buckets: Buckets) -> tuple[int, int, dict[str, bytes]]:
    """Return buckets to the last bit."""
    return buckets.level, buckets.tail, {name: column.tobytes() for name, column in buckets.columns.items()}


@given(st.lists(NUMBERS, max_size=150), st.sampled_from([2, 8, 16]))
def test_engine_makes_the_same_buckets(values: list[float], most: int) -> None:
    """One by one, places, extremes, means and counts are equal to the last bit, after any number of halvings."""
    plain, made = pair(most)
    for step, value in enumerate(values):
        finite = value if isfinite(value) else nan
        for each in (plain, made):
            each.add((step, step / 2, nan), finite, (step // 3 * 10, step // 3))
    assert shown(plain.buckets()) == shown(made.buckets())
    assert str(plain.first_places) == str(made.first_places)


@given(st.lists(st.lists(NUMBERS.filter(lambda value: value != inf), max_size=90), min_size=1, max_size=4))
def test_engine_packs_the_same(curves: list[list[float]]) -> None:
    """Halvings, places of columns and the columns themselves are equal; equal columns are there once."""
    found, data = [], []
    for kind in (0, 1):
        packing = Packing()
        if kind == 0:
            packing._engine = None
        levels = []
        for values in curves:
            curve = pair(64)[kind]
            for step, value in enumerate(values):
                curve.add((step, step, nan), value, (0, 1))
            levels += packing.levels(curve, 8)
        found.append(levels)
        data.append(packing.data())
    assert found[0] == found[1]
    assert data[0] == data[1]
