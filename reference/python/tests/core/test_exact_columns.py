"""The columns that travel in 4 bytes a value."""

from __future__ import annotations

import struct
from array import array
from math import inf, nan
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.view.curve_frames import exact_column, mean_column

if TYPE_CHECKING:
    from collections.abc import Sequence

_SINGLES = st.floats(width=32)
_DECIMALS = st.builds(
    lambda digits, number: round(number / 10**digits, digits), st.integers(0, 9), st.integers(-(10**9), 10**9)
)


def _buckets(largest: float, highest: float) -> st.SearchStrategy[tuple[float, float]]:
    """Return the lowest values and the heights of buckets."""
    return st.tuples(st.floats(-largest, largest), st.floats(0, highest))


def _read(kind: str, divisor: float, data: bytes) -> bytes:
    """Return the bytes of the numbers in *data*, as a reader of the protocol gets them."""
    if kind == "f8":
        return data
    count = len(data) // 4
    if kind == "f4":
        return struct.pack(f"<{count}d", *struct.unpack(f"<{count}f", data))
    numbers = struct.unpack(f"<{count}i", data)
    return struct.pack(f"<{count}d", *(nan if each == -(1 << 31) else each / divisor for each in numbers))


@given(st.one_of(st.lists(_SINGLES), st.lists(_DECIMALS), st.lists(st.floats() | _DECIMALS | _SINGLES)))
def test_each_number_is_the_same_again(values: Sequence[float]) -> None:
    """No way is taken that changes a bit, whatever was logged."""
    header, data = exact_column("last", array("d", values))
    assert struct.pack(f"<{len(values)}d", *values) == _read(header["type"], header.get("scale", [1])[0], data)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5, nan, 3.0], "f4"),
        ([16777217.0, 3.0], "i4"),
        ([2.345678, nan, -0.25], "i4"),
        ([0.1, 0.2, inf], "f8"),
        ([0.1, -0.0], "f8"),
        ([1 / 3, 0.5], "f8"),
        ([3e9, 0.1], "f8"),
    ],
)
def test_the_shortest_way_that_is_exact_is_taken(values: list[float], expected: str) -> None:
    """Numbers of 32 bits and decimals of a few digits take 4 bytes."""
    assert expected == exact_column("last", array("d", values))[0]["type"]


@given(st.sampled_from([(1e300, 1e300), (1e8, 1e3)]).flatmap(lambda most: st.lists(_buckets(*most), min_size=1)))
def test_mean_is_rounded_by_what_is_not_seen_of_its_bucket(buckets: Sequence[tuple[float, float]]) -> None:
    """A mean is at most a thousandth of the height of its bucket from what it was."""
    low = array("d", [each for each, _ in buckets])
    high = array("d", [each + height for each, height in buckets])
    mean = array("d", [each + height / 3 for each, height in buckets])
    header, data = mean_column(mean, low, high)
    if header["type"] == "m0":
        assert mean == array("d", ((bottom + top) / 2 for bottom, top in zip(low, high, strict=True)))
        return
    found = struct.unpack(f"<{len(mean)}d", _read(header["type"], header.get("scale", [1])[0], data))
    for value, rounded, bottom, top in zip(mean, found, low, high, strict=True):
        assert abs(value - rounded) <= (top - bottom) / 999


def test_mean_takes_as_few_bytes_as_its_buckets_allow() -> None:
    """A mean of two points takes none, and one of large numbers that are close together is not rounded."""
    found = [
        mean_column(array("d", [(2 * low + high) / 3]), array("d", [low]), array("d", [high]))[0]["type"]
        for low, high in ((0.1, 0.2), (1.7e9 + 0.1, 1.7e9 + 0.2))
    ]
    middle = mean_column(array("d", [0.2]), array("d", [0.1]), array("d", [0.3]))[0]
    assert (["f4", "f8"], {"name": "mean", "type": "m0"}) == (found, middle)
