"""CRC-32C (Castagnoli), the check sum of TensorBoard's and W&B's records.

Where google-crc32c is installed, as by the extra tensorboard, it computes in C. Without it, a loop over bytes does: of
little account for scalars, and most of the time for images and histograms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _table()


def crc32c_plainly(data: Iterable[int]) -> int:
    """Return the CRC-32C of *data*, computed in Python."""
    crc = _ALL_ONES
    table = _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ _ALL_ONES


try:
    from google_crc32c import value as _value
except ImportError:
    _value = crc32c_plainly


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of *data*."""
    return int(_value(data))


def masked(crc: int) -> int:
    """Return *crc* as TensorBoard stores it."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES
