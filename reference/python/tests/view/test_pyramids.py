from __future__ import annotations

from math import fsum, isfinite, isnan, nan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
