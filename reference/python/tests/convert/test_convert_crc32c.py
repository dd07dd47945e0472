"""Tests of the check sums of TensorBoard's records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toyspec.convert.tensorboard_files import crc32c, crc32c_plainly, masked


def bit_by_bit(data: bytes) -> int:
    """Return the CRC-32C as its definition says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_check_value_is_that_of_the_standard() -> None:
    """The check value of CRC-32C, and the mask of TensorBoard's first record header."""
    assert 0xE3069283 == crc32c(b"123456789")
    assert bytes.fromhex("a37f4b22") == masked(crc32c(bytes([24, 0, 0, 0, 0, 0, 0, 0]))).to_bytes(4, "little")


@given(st.integers(0, 1200), st.randoms(use_true_random=False))
def test_any_length_agrees_with_the_definition(length: int, random: object) -> None:
    """Short and long records have the same check sum as bit by bit."""
    data = random.randbytes(length)  # type: ignore[attr-defined]
    assert bit_by_bit(data) == crc32c(data) == crc32c_plainly(data)
