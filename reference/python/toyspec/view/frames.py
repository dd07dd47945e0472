"""The frames that curves travel in, and columns in as few bits as a drawing shows: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import struct
import sys
from array import array
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Encoded = tuple[dict[str, Any], bytes]

_UNIT = 8
_STEPS = 65534
_NAN = 65535
_STEPS_WITHIN = 254
_NAN_WITHIN = 255
_WITHIN = ("last", "mean")


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


def short_columns(columns: Mapping[str, array[float]]) -> Iterator[Encoded]:
    """Yield the header and the bytes of each column.

    A column is in 16 bits a value, in which whole steps stay exact; ``last`` and ``mean`` of buckets are in 8 bits,
    as their place between ``min`` and ``max``.
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
    if name == "step" and len(column) > 1 and column[1] > column[0]:
        gap = column[1] - column[0]
        unit = gap if all((value - low) % gap == 0 for value in known) and (high - low) / gap <= _STEPS else unit
    if not isfinite(unit) or (name in ("step", "count", "nan") and unit != 0 and unit % 1):
        return {"name": name, "type": "f8"}, little(column)
    numbers = [_number(value, low, unit) for value in column]
    return {"name": name, "type": "d2", "scale": [low, unit]}, _differences(numbers)


def _number(value: float, low: float, unit: float) -> int:
    if not isfinite(value):
        return _NAN
    return round((value - low) / unit) if unit else 0


def _differences(numbers: list[int]) -> bytes:
    """Return each number's difference to the one before, modulo 65536: all high bytes, then all low bytes.

    Neighbours on a curve are near, so the high bytes compress well.
    """
    steps = [(number - before) & 0xFFFF for before, number in zip([0, *numbers], numbers, strict=False)]
    return bytes(step >> 8 for step in steps) + bytes(step & 0xFF for step in steps)
