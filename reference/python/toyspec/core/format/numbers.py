"""Which JSON values are numbers, and their canonical text: the shortest digits that read back to the same value.

The rule is normative, not a library. A binary32 value reads back through binary64. Of equally short texts the closest
to the value is used, of equally close ones the even one. If the point is after position k of the digits, the number is
written in plain decimals for -5 < k <= 16, else as ``d.ddde-x`` without a plus sign and leading zeros.
"""

from __future__ import annotations

import math
import struct
from math import isfinite
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder()
_FLOAT = struct.Struct("<f")
_BITS = struct.Struct("<I")
_MANTISSA_BITS = 23
_HIDDEN_BIT = 1 << _MANTISSA_BITS
# The weight of the last mantissa bit of the smallest normal and of every subnormal binary32 is 2**-149.
_MIN_EXPONENT = -149
_LAST_PLAIN_POSITION = 16
_FIRST_PLAIN_POSITION = -4
# The binary64 value nearest to 7.038531e-26 is the middle between these two, and reads back as the even one.
_ROUNDED_TWICE = {0x15AE43FD: "7.0385307e-26", 0x15AE43FE: "7.038531e-26"}


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
    if 7.03e-26 < magnitude < 7.04e-26 and (text := _ROUNDED_TWICE.get(_BITS.unpack(_FLOAT.pack(magnitude))[0])):
        return sign + text
    digits, power = _shortest_binary32(magnitude)
    return sign + _laid_out(str(digits).rstrip("0"), len(str(digits)) + power)


def _shortest_binary32(value: float) -> tuple[int, int]:
    """Return integers ``(digits, power)`` with ``digits * 10**power`` the shortest decimal of a positive binary32."""
    mantissa, exponent = _parts(value)
    # All numbers that round to the value are between two midpoints; in quarters of the last bit these are integers.
    closer_below = mantissa == _HIDDEN_BIT and exponent > _MIN_EXPONENT
    low, middle, high = 4 * mantissa - (1 if closer_below else 2), 4 * mantissa, 4 * mantissa + 2
    # Ten digits, or nine if the estimate was rounded up: nine always suffice for binary32.
    power = int(f"{value:.0e}".partition("e")[2]) - 9
    scale = 2 ** max(exponent - 2, 0) * 10 ** max(-power, 0)
    unit = 2 ** max(2 - exponent, 0) * 10 ** max(power, 0)
    low, middle, high = low * scale, middle * scale, high * scale
    first, last = -(-low // unit), high // unit
    if mantissa % 2:
        # A midpoint reads back as the even neighbour, so it is outside here.
        first += first * unit == low
        last -= last * unit == high
    step = 1
    while last // (step * 10) * (step * 10) >= first:
        step *= 10
    return _closest(first, last, middle, unit, step), power


def _closest(first: int, last: int, middle: int, unit: int, step: int) -> int:
    """Return the multiple of *step* in ``first..last`` that is closest to ``middle / unit``, ties to even."""
    below = middle // (unit * step) * step
    above = below + step
    if below < first:
        return above
    if above > last:
        return below
    excess = 2 * middle - (below + above) * unit
    if excess == 0:
        return below if below // step % 2 == 0 else above
    return above if excess > 0 else below


def _parts(value: float) -> tuple[int, int]:
    """Return integers ``(m, e)`` with ``value == m * 2**e``, as binary32 holds them."""
    bits: int = _BITS.unpack(_FLOAT.pack(value))[0]
    biased = bits >> _MANTISSA_BITS
    mantissa = bits & (_HIDDEN_BIT - 1)
    if biased == 0:
        return mantissa, _MIN_EXPONENT
    return mantissa | _HIDDEN_BIT, biased - 1 + _MIN_EXPONENT


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
