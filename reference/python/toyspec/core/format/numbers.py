"""Which JSON values are numbers, and their canonical text: the shortest digits that read back to the same value.

The rule is normative, not a library. A binary32 value reads back through binary64. Of equally short texts the closest
to the value is used, of equally close ones the even one. If the point is after position k of the digits, the number is
written in plain decimals for -5 < k <= 16, else as ``d.ddde-x`` without a plus sign and leading zeros.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from math import isfinite
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()
_FLOAT = struct.Struct("<f")
# As many always suffice for binary32.
_MOST_DIGITS = 9
# So many fit into 64 bits.
_MOST_OF_64_BITS = 18


def digits_of(text: str | bytes) -> int | None:
    """Return the integer that *text* writes in 1 to 18 digits; None for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_OF_64_BITS
    return int(text) if is_number else None


def binary64_text(value: float) -> str:
    """Return the canonical text of a binary64 value; ``null`` when it is not finite."""
    return _ENCODER.encode(value).decode("ascii")


def binary32(value: float) -> float:
    """Return the binary32 value nearest to *value*, ties to even; an infinity beyond the largest one."""
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def binary32_text(value: float) -> str:
    """Return the canonical text of *value* rounded to binary32; ``null`` when that is not finite."""
    rounded = binary32(value)
    if not math.isfinite(rounded):
        return "null"
    # A float is written in the same way whatever its width: what differs is how many digits it needs.
    return binary64_text(math.copysign(_shortest(abs(rounded)), rounded))


def _shortest(value: float) -> float:
    """Return the number with the fewest digits that reads back to a binary32 that is not negative."""
    # What has few digits has more as well.
    places = bisect_left(range(_MOST_DIGITS - 1), True, key=lambda places: _of_digits(value, places) is not None)
    found = _of_digits(value, places)
    assert found is not None
    return found


def _of_digits(value: float, places: int) -> float | None:
    """Return the number near *value* with *places* digits after the first; None if none of them reads back to it."""
    head, _, power = f"{value:.{places}e}".partition("e")
    nearest, exponent = int(head.replace(".", "")), int(power) - places
    # Below a power of two fewer numbers round to it than above: the next digit may be where the nearest is not.
    found = (float(f"{digits}e{exponent}") for digits in (nearest, nearest + 1))
    return next((each for each in found if binary32(each) == value), None)


def number(value: Any) -> float | int | None:
    """Return *value* when it is a JSON number, else None."""
    is_number = type(value) is float or (isinstance(value, int | float) and not isinstance(value, bool))
    return value if is_number else None


def finite_number(value: float | None) -> float | None:
    """Return *value* as a float; None for null, for what is not finite, and for an integer that no float has."""
    try:
        return None if value is None or not isfinite(value) else float(value)
    except OverflowError:
        return None
