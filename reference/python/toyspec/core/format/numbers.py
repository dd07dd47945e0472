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
_LAST_PLAIN_POSITION = 16
_FIRST_PLAIN_POSITION = -4


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
    sign = "-" if math.copysign(1.0, rounded) < 0 else ""
    magnitude = abs(rounded)
    if magnitude == 0.0:
        return sign + "0.0"
    return sign + _laid_out(*_shortest(magnitude))


def _shortest(value: float) -> tuple[str, int]:
    """Return the shortest digits that read back to a positive binary32, and the position of the point after them."""
    # What has few digits has more as well.
    places = bisect_left(range(_MOST_DIGITS - 1), True, key=lambda places: _digits(value, places) is not None)
    found = _digits(value, places)
    assert found is not None
    return found


def _digits(value: float, places: int) -> tuple[str, int] | None:
    """Return the digits of *value* with *places* after the first, as ``_shortest``; None if they do not read back."""
    head, _, power = f"{value:.{places}e}".partition("e")
    nearest, exponent = int(head.replace(".", "")), int(power) - places
    # Below a power of two fewer numbers round to it than above: the next digit may be where the nearest is not.
    for digits in (nearest, nearest + 1):
        if binary32(float(f"{digits}e{exponent}")) == value:
            return str(digits).rstrip("0"), len(str(digits)) + exponent
    return None


def _laid_out(digits: str, position: int) -> str:
    """Return the text of ``0.digits * 10**position``; *digits* begins and ends with a digit other than zero."""
    if not _FIRST_PLAIN_POSITION <= position <= _LAST_PLAIN_POSITION:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{digits[0]}{fraction}e{position - 1}"
    if position <= 0:
        return f"0.{'0' * -position}{digits}"
    if len(digits) <= position:
        return f"{digits}{'0' * (position - len(digits))}.0"
    return f"{digits[:position]}.{digits[position:]}"


def number(value: Any) -> float | int | None:
    """Return *value* when it is a JSON number, else None."""
    is_number = type(value) is float or (isinstance(value, int | float) and not isinstance(value, bool))
    return value if is_number else None


def is_number_or_null(value: Any) -> bool:
    """Return whether *value* is a JSON number, or null, which stands for one that was not finite."""
    return value is None or number(value) is not None


def finite_number(value: float | None) -> float | None:
    """Return *value* as a float; None for null, for what is not finite, and for an integer that no float has."""
    try:
        return None if value is None or not isfinite(value) else float(value)
    except OverflowError:
        return None
