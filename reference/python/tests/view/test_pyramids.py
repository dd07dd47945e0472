from __future__ import annotations

from array import array
from functools import partial
from math import fsum, inf, isfinite, isnan, nan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toyspec.core.runs.curves import Curve
from toyspec.view.pyramids import Buckets, Pyramid

MOST = 8
NUMBERS = st.floats(-1e9, 1e9) | st.just(nan) | st.sampled_from([1e308, -1e308, 0.0])
PIECES = st.lists(st.lists(NUMBERS, max_size=20), max_size=12)


def by_pieces(pieces: list[list[float]]) -> Buckets:
    """Return the buckets of a curve whose points come in *pieces*."""
    pyramid, done = Pyramid(MOST), 0
    for piece in pieces:
        for step, value in enumerate(piece, done):
            pyramid.add((step, step, nan), value, (7, 3))
        done += len(piece)
    return pyramid.buckets()


@given(PIECES)
@example([[1e308, 1e308, *[1.0] * 6]])
def test_buckets_are_what_their_points_say(pieces: list[list[float]]) -> None:
    """Each bucket has the place of its last point, and extremes, mean and last value of its finite points."""
    points = [point for piece in pieces for point in piece]
    for found in (by_pieces(pieces), by_pieces(pieces).fitting(2)):
        assert len(points) == found.points
        assert found.number <= MOST
        for at in range(found.number):
            inside = points[at * found.level : (at + 1) * found.level]
            finite = [point for point in inside if isfinite(point)]
            bucket = {name: column[at] for name, column in found.columns.items()}
            assert (at * found.level + len(inside) - 1, len(inside) - len(finite)) == (bucket["step"], bucket["nan"])
            if not finite:
                assert all(isnan(bucket[name]) for name in ("last", "min", "max", "mean"))
                continue
            assert (finite[-1], min(finite), max(finite)) == (bucket["last"], bucket["min"], bucket["max"])
            mean = fsum(each / len(finite) for each in finite)
            assert mean == pytest.approx(bucket["mean"], rel=1e-9, abs=1e-12 * max(map(abs, finite)))


@given(
    st.lists(
        st.lists(st.floats(-inf, inf, allow_nan=False, allow_infinity=False) | st.none(), max_size=150), max_size=4
    )
)
def test_a_summary_is_the_same_at_once_and_one_by_one(pieces: list[list[float | None]]) -> None:
    """Counts, extremes, ends and means of a series do not depend on how its values come."""
    single, whole = Curve(2), Curve(2)
    values: list[float | None] = []
    for piece in pieces:
        steps = range(len(values), len(values) + len(piece))
        finite = array("d", [value for value in piece if value is not None])
        for step, value in zip(steps, piece, strict=True):
            single.add(step, value)
            if len(finite) < len(piece):
                whole.add(step, value)
        if finite and len(finite) == len(piece):
            whole.add_all(steps, finite)
        values += piece
    for name in ("count", "not_finite", "first", "last", "last_finite", "lowest", "highest"):
        assert getattr(single, name) == getattr(whole, name)
    means = [[nan if mean is None else mean for mean in curve.means()] for curve in (single, whole)]
    close = partial(
        pytest.approx, rel=1e-6, abs=1e-300 + 1e-9 * max((abs(value or 0.0) for value in values), default=0.0)
    )
    assert means[0] == close(means[1], nan_ok=True)
    share = next(1 << power for power in range(99) if len(values) < 4 << power)
    assert -(-len(values) // share) == len(means[0])
    if None not in values:
        parts = [values[at : at + share] for at in range(0, len(values), share)]
        assert means[0] == close([fsum((value or 0.0) / len(part) for value in part) for part in parts])
