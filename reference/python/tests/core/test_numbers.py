"""The text of numbers, against an exact oracle; and whole numbers that become integers."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from toyspec.core.format.numbers import binary32, binary32_text, binary64_text
from toyspec.core.generated.toy_v1 import Step, Tap
from toyspec.core.reading.reader import read


def shortest(value: float) -> Fraction:
    """Return the decimal of the fewest digits that a positive binary32 is read back from, found by trying all."""
    exact, exponent = Fraction(value), Decimal(value).adjusted()
    for places in range(9):
        unit = Fraction(10) ** (exponent - places)
        near = (exact // unit, exact // unit + 1)
        # Read by way of binary64; of equally close ones, the even one is taken.
        fits = [(abs(each * unit - exact), each % 2, each) for each in near if binary32(float(each * unit)) == value]
        if fits:
            return min(fits)[2] * unit
    raise AssertionError(value)


# Reading 7.038531e-26 by way of binary64 lands exactly between the second and the third of these.
@given(st.integers(1, 0x7F7FFFFF))
@example(1)
@example(0x15AE43FD)
@example(0x15AE43FE)
def test_binary32_text_is_the_shortest_and_closest(bits: int) -> None:
    """The text of any binary32 is the one that trying all digits finds."""
    assert_shortest(struct.unpack("<f", struct.pack("<I", bits))[0])


def assert_shortest(value: float) -> None:
    """Check the text of *value*, which has the layout of every number, and that of its negative."""
    text = binary32_text(value)
    assert shortest(value) == Fraction(text)
    assert (binary64_text(float(text)), f"-{text}") == (text, binary32_text(-value))


def test_binary32_text_of_all_powers_of_two() -> None:
    """Powers of two, where the interval below is half as wide, are written like all other values."""
    for exponent in range(-149, 128):
        assert_shortest(2.0**exponent)


def test_reader_gives_integers_in_values_and_events() -> None:
    """A record, its typed event and the object without its LF agree."""
    lines = [
        b'{"kind":"step","t":1.0,"step":1.0,"loss":2.0,"wall_us":71200.0}',
        b'{"kind":"tap","t":2.0,"step":2e0,"region":"a","layer":null,"shape":[4.0],"dtype":"f16"}',
    ]
    reading = read(b"\n".join([*lines, lines[0]]))
    step, tap = reading
    assert Step(t=1.0, step=1, loss=2.0, wall_us=71200) == step.event
    assert Tap(t=2.0, step=2, region="a", layer=None, shape=[4], dtype="f16") == tap.event
    uncommitted = reading.report.uncommitted or {}
    assert ([1, 1], {int}) == ([step["step"], uncommitted["step"]], {type(step["step"]), type(uncommitted["step"])})
