"""The text of numbers, against an exact oracle that knows nothing of the implementation."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toyspec.core.findings import Profile
from toyspec.core.format.decoding import take_integers, take_integers_of_manifest
from toyspec.core.format.numbers import binary32_text, binary64_text
from toyspec.core.generated.toy_v1 import Step, Tap
from toyspec.core.reading.reader import read

FINITE = st.floats(allow_nan=False, allow_infinity=False)
BITS32 = st.integers(0, 0x7F7FFFFF)
# Reading 7.038531e-26 by way of binary64 lands exactly between these two: the one such text of all.
ROUNDED_TWICE = (0x15AE43FD, 0x15AE43FE)


def from_bits32(bits: int) -> float:
    """Return the binary32 value that has the given bits."""
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def midpoints(value: float, bits: int, code: str) -> tuple[Fraction, Fraction]:
    """Return the bounds of all numbers that round to a positive *value*, whose bits are given."""
    integer = {"f": "I", "d": "Q"}[code]

    def at(number: int) -> Fraction:
        found = struct.unpack(f"<{code}", struct.pack(f"<{integer}", number))[0]
        if math.isinf(found):
            return 2 * at(bits) - at(bits - 1)
        return Fraction(found)

    return (at(bits - 1) + Fraction(value)) / 2, (at(bits + 1) + Fraction(value)) / 2


def shortest(value: float, code: str) -> tuple[str, int]:
    """Return the digits and the position of the point of the shortest decimal of *value*, found by trying all."""
    integer = {"f": "I", "d": "Q"}[code]
    bits = struct.unpack(f"<{integer}", struct.pack(f"<{code}", value))[0]
    low, high = midpoints(value, bits, code)
    exact = Fraction(value)
    position = math.floor(math.log10(value)) - 1
    while Fraction(10) ** position <= exact:
        position += 1
    for count in range(1, 18):
        unit = Fraction(10) ** (position - count)
        floor = exact // unit
        fits = [
            (abs(digits * unit - exact), digits % 2, digits)
            for digits in (floor, floor + 1)
            if low < digits * unit < high or (bits % 2 == 0 and digits * unit in (low, high))
        ]
        if fits:
            digits = str(min(fits)[2])
            return digits.rstrip("0"), position + len(digits) - count
    raise AssertionError(value)


def expected_text(value: float, code: str) -> str:
    """Return the canonical text of *value* as the rule states it."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, k = shortest(abs(value), code)
    if not -5 < k <= 16:
        return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{k - 1}"
    if k <= 0:
        return f"{sign}0.{'0' * -k}{digits}"
    return f"{sign}{digits[:k].ljust(k, '0')}.{digits[k:] or '0'}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (1e-5, "0.00001"),
        (1.5e-6, "1.5e-6"),
        (1e-6, "1e-6"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e16"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (2.0**-44, "5.684341886080802e-14"),
        (-123456.789, "-123456.789"),
        (math.nan, "null"),
        (-math.inf, "null"),
    ],
)
def test_binary64_text_of_landmarks(value: float, text: str) -> None:
    """The values at which the layout changes have the text that the rule gives them."""
    assert text == binary64_text(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (16777216.0, "16777216.0"),
        (3.4028234663852886e38, "3.4028235e38"),
        (-3.4028235677973362e38, "-3.4028235e38"),
        (3.4028235677973366e38, "null"),
        (1e300, "null"),
        (-1e300, "null"),
        (math.inf, "null"),
        (math.nan, "null"),
        (2.0**-149, "1e-45"),
        (1e-46, "0.0"),
        (-1e-46, "-0.0"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e16"),
        (1e-5, "0.00001"),
        (9.999999e-6, "9.999999e-6"),
        (0.9999999999, "1.0"),
        (8388608.0, "8388608.0"),
        # A midpoint reads back as the even neighbour: it may stand for that one, not for the odd one.
        (33554448.0, "33554450.0"),
        (33554452.0, "33554452.0"),
        # Of two equally close, the even one.
        (2097152.25, "2097152.2"),
        (2097152.75, "2097152.8"),
    ],
)
def test_binary32_text_of_landmarks(value: float, text: str) -> None:
    """A value is rounded to binary32 first, and what is not finite there is null."""
    assert text == binary32_text(value)


@given(FINITE)
@example(9007199254740993.0)
@example(2.0**-1074)
def test_binary64_text_is_the_shortest_and_closest(value: float) -> None:
    """The text of any binary64 is the one that trying all digits finds."""
    assert expected_text(value, "d") == binary64_text(value)


@given(BITS32.filter(lambda bits: bits not in ROUNDED_TWICE))
@example(1)
def test_binary32_text_is_the_shortest_and_closest(bits: int) -> None:
    """The text of any binary32 is the one that trying all digits finds."""
    value = from_bits32(bits)
    assert expected_text(value, "f") == binary32_text(value)


def test_binary32_text_of_all_powers_of_two() -> None:
    """Powers of two, where the interval below is half as wide, are written like all other values."""
    for exponent in range(-149, 128):
        assert expected_text(2.0**exponent, "f") == binary32_text(2.0**exponent)


def test_binary32_text_reads_back_by_way_of_binary64_where_that_makes_a_difference() -> None:
    """The two values that rounding twice confuses have the shortest text that it does not."""
    assert ["7.0385307e-26", "7.038531e-26"] == [binary32_text(from_bits32(bits)) for bits in ROUNDED_TWICE]
    assert ["-7.0385307e-26", "-7.038531e-26"] == [binary32_text(-from_bits32(bits)) for bits in ROUNDED_TWICE]


@pytest.mark.parametrize(
    ("profile", "kind", "value"),
    [
        ("toy/v1", "step", {"step": 1.5, "loss": 2.0, "extra": {"a": 1.0}, "else": 3.0}),
        ("toy/v1", "run_start", {"config": {"batch": 8.0}, "model": [1.0], "step": "1.0"}),
        ("toy/v1", "future", {"step": 1.0}),
        ("metrics/v1", "entry", {"step": 1.0}),
        ("kaun/v1", "run", {"total_epochs": 1.0}),
        (None, None, {"step": 1.0}),
    ],
)
def test_other_numbers_stay_as_they_are(profile: Profile | None, kind: str | None, value: dict[str, Any]) -> None:
    """Fractions, number fields, open maps, unknown keys and kinds, and metrics/v1 have no such places."""
    before = repr(value)
    assert [] == take_integers(value, profile, kind)
    assert before == repr(value)


def test_integers_inside_objects_arrays_and_maps_are_found() -> None:
    """Every place that the schema types as integer counts."""
    value: dict[str, Any] = {"model": {"vocab": 5.0, "rope_base": 1.0}, "step": 2.0}
    assert [("step",), ("model", "vocab")] == take_integers(value, "toy/v1", "run_start")
    assert {"model": {"vocab": 5, "rope_base": 1.0}, "step": 2} == value
    tap: dict[str, Any] = {"shape": [2.0, 3, 4.5]}
    assert [("shape", 0)] == take_integers(tap, "toy/v1", "tap")
    timing: dict[str, Any] = {"buckets": {"a": 1.0, "b": 2}}
    assert [("buckets", "a")] == take_integers(timing, "toy/v1", "op_timing")
    assert [("total_epochs",)] == take_integers_of_manifest({"total_epochs": 3.0, "created_at": 1.0})


def test_reader_gives_integers_in_values_and_events() -> None:
    """A record, its typed event and the bare events agree; the line is kept unchanged."""
    lines = [
        b'{"kind":"step","t":1.0,"step":1.0,"loss":2.0,"wall_us":71200.0}',
        b'{"kind":"step","t":2.0,"step":2,"loss":1.0}',
        b'{"kind":"tap","t":2.0,"step":2e0,"region":"a","layer":null,"shape":[4.0],"dtype":"f16"}',
    ]
    data = b'{"kind":"run_start","t":0,"run_id":"a"}\n' + b"".join(line + b"\n" for line in lines)
    found = list(read(data))[1:]
    assert [(1, 71200), (2, None), (2, None)] == [(item["step"], item.get("wall_us")) for item in found]
    assert {int} == {type(item["step"]) for item in found}
    assert lines == [item.raw for item in found]
    assert Step(t=1.0, step=1, loss=2.0, wall_us=71200) == found[0].event
    found[0].drop_value()
    assert (int, 1) == (type(found[0]["step"]), found[0]["step"])
    assert Step(t=2.0, step=2, loss=1.0) == list(read(data).events())[2]
    report = read(data + lines[0]).report
    assert report.uncommitted is not None
    assert int is type(report.uncommitted["step"])
    assert Tap(t=2.0, step=2, region="a", layer=None, shape=[4], dtype="f16") == found[2].event
