"""The frames that curves travel in, and columns in as few bits as a drawing shows: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import struct
import sys
from array import array
from itertools import repeat
from math import gcd, inf, isfinite, nan
from operator import add, gt, mul, sub, truediv
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Encoded = tuple[dict[str, Any], bytes]

_UNIT = 8
_DIVISORS = tuple(10.0**digits for digits in range(10))
_NO_INTEGER = -(1 << 31)
# So many values decide by what all are divided.
_TRIED = 16
_FEW = 8
# The part of the height of a bucket by which its mean may be rounded.
_UNSEEN = 1e-3
_STEPS = 65534
_NAN = 65535
_MANY_STEPS = (1 << 32) - 2
_NAN_OF_MANY = (1 << 32) - 1
_STEPS_WITHIN = 254
_NAN_WITHIN = 255
_WITHIN = ("last", "mean")
_WHOLE = ("step", "count", "nan")


def frame(header: dict[str, Any], columns: Sequence[bytes] = ()) -> bytes:
    """Return a frame of *header* and the *columns* that it names."""
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % _UNIT)
    body = b"".join(column + bytes(-len(column) % _UNIT) for column in columns)
    return struct.pack("<II", len(text), len(body)) + text + body


def little(column: array[float]) -> bytes:
    """Return *column* as binary64, little-endian."""
    if sys.byteorder == "little":
        return column.tobytes()
    swapped = array("d", column)
    swapped.byteswap()
    return swapped.tobytes()


def exact_column(name: str, column: array[float]) -> Encoded:
    """Return the header and the bytes of *column*: in 4 bytes a value where they give the same numbers again.

    They do for what was computed in 32 bits, and for decimals of a few digits.
    """
    data = little(column)
    # Most columns are not of 32 bits from their first values on.
    if all(array("d", array("f", part)).tobytes() == part.tobytes() for part in (column[:_TRIED], column)):
        return _single(name, column)
    found = _quotients(column, data)
    if found is None:
        return {"name": name, "type": "f8"}, data
    numbers, divisor = found
    return {"name": name, "type": "i4", "scale": [divisor, 1]}, _little_bytes(numbers)


def mean_column(mean: array[float], low: array[float], high: array[float]) -> Encoded:
    """Return the header and the bytes of the *mean* of each bucket, which is not logged but computed.

    It may be rounded by a thousandth of the bucket's height, from *low* to *high*, which is not seen.
    """
    if _is_middle(mean, low, high):
        return {"name": "mean", "type": "m0"}, b""
    errors = map(abs, map(sub, array("f", mean), mean))
    if any(map(gt, errors, map(mul, map(sub, high, low), repeat(_UNSEEN)))):
        return exact_column("mean", mean)
    return _single("mean", mean)


def _is_middle(mean: array[float], low: array[float], high: array[float]) -> bool:
    """Return whether each mean is half of the sum of the lowest and the highest value, as it is of two points."""
    # Of longer buckets, the first ones say no.
    return all(
        mean[:count].tobytes() == array("d", map(truediv, map(add, low[:count], high[:count]), repeat(2.0))).tobytes()
        for count in (_FEW, len(mean))
    )


def _single(name: str, column: array[float]) -> Encoded:
    """Return the header and the bytes of *column* as binary32, to which it is rounded."""
    return {"name": name, "type": "f4"}, _little_bytes(array("f", column))


def _quotients(column: array[float], data: bytes) -> tuple[array[int], float] | None:
    """Return integers and what to divide them by to get *column*, whose bytes are *data*; None if there are none."""
    tried = [value for value in column[:: max(1, len(column) // _TRIED)] if isfinite(value)]
    divisor = next((each for each in _DIVISORS if all(_is_quotient(value, each) for value in tried)), None)
    if divisor is None:
        return None
    products = map(mul, column, repeat(divisor))
    try:
        numbers = array("i", map(round, products) if isfinite(sum(column)) else map(_integer, products))
    except (OverflowError, ValueError):
        return None
    values = array("d", map(truediv, numbers, repeat(divisor)))
    for at, number in enumerate(numbers if _NO_INTEGER in numbers else ()):
        if number == _NO_INTEGER:
            values[at] = nan
    return (numbers, divisor) if little(values) == data else None


def _integer(value: float) -> int:
    return round(value) if isfinite(value) else _NO_INTEGER


def _is_quotient(value: float, divisor: float) -> bool:
    return abs(value) * divisor < -_NO_INTEGER and round(value * divisor) / divisor == value


def _little_bytes(values: array[float] | array[int]) -> bytes:
    if sys.byteorder != "little":
        values.byteswap()
    return values.tobytes()


def short_columns(columns: Mapping[str, array[float]]) -> Iterator[Encoded]:
    """Yield the header and the bytes of each column.

    A column is in 16 bits a value, and whole steps, which stay exact, in 16 or 32; ``last`` and ``mean`` of buckets are
    in 8 bits, as their place between ``min`` and ``max``.
    """
    low, high = columns.get("min"), columns.get("max")
    for name, column in columns.items():
        if name in _WITHIN and low is not None and high is not None:
            yield {"name": name, "type": "u1"}, _placed(column, low, high)
        else:
            yield _scaled(name, column)


def _placed(column: array[float], low: array[float], high: array[float]) -> bytes:
    return bytes(
        _place(value, least, greatest) if isfinite(value) else _NAN_WITHIN
        for value, least, greatest in zip(column, low, high, strict=True)
    )


def _place(value: float, least: float, greatest: float) -> int:
    # Halves, since the difference of two large numbers may be infinite.
    width = greatest / 2 - least / 2
    return round(min(1.0, max(0.0, (value / 2 - least / 2) / width)) * _STEPS_WITHIN) if width > 0 else 0


def _scaled(name: str, column: array[float]) -> Encoded:
    known = [value for value in column if isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    unit = (high - low) / _STEPS
    form: Literal["d2", "d4"] = "d2"
    if name in _WHOLE and unit:
        unit = _common_unit(known, low)
        form = "d2" if (high - low) / unit <= _STEPS else "d4"
    if not isfinite(unit) or (form == "d4" and (high - low) / unit > _MANY_STEPS):
        return {"name": name, "type": "f8"}, little(column)
    numbers = [_number(value, low, unit, _NAN if form == "d2" else _NAN_OF_MANY) for value in column]
    return {"name": name, "type": form, "scale": [low, unit]}, _differences(numbers, 2 if form == "d2" else 4)


def _common_unit(known: Sequence[float], low: float) -> float:
    """Return the largest number of which all distances to *low* are multiples; infinity if they are not whole."""
    distances = [value - low for value in known]
    if not all(distance.is_integer() for distance in distances):
        return inf
    return float(gcd(*map(int, distances)))


def _number(value: float, low: float, unit: float, absent: int) -> int:
    if not isfinite(value):
        return absent
    return round((value - low) / unit) if unit else 0


def _differences(numbers: list[int], width: int) -> bytes:
    """Return each number's difference to the one before, in *width* bytes, modulo what these hold.

    All high bytes are before all lower ones: neighbours on a curve are near, so the high bytes compress well.
    """
    mask = (1 << 8 * width) - 1
    steps = [(number - before) & mask for before, number in zip([0, *numbers], numbers, strict=False)]
    shifts = range(8 * (width - 1), -1, -8)
    return b"".join(bytes(step >> shift & 0xFF for step in steps) for shift in shifts)
