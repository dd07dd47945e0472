"""The frames that curves travel in: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import struct
import sys
from array import array
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNIT = 8


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
