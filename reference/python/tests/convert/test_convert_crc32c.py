"""Tests of the check sums of TensorBoard's records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toyspec.convert.tensorboard_files import crc32c, crc32c_plainly


def bit_by_bit(data: bytes) -> int:
    """Return the CRC-32C as its definition says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@given(st.integers(0, 1200), st.randoms(use_true_random=False))
def test_any_length_agrees_with_the_definition(length: int, random: object) -> None:
    """Short and long records have the same check sum as bit by bit."""
    data = random.randbytes(length)  # type: ignore[attr-defined]
    assert bit_by_bit(data) == crc32c(data) == crc32c_plainly(data)
