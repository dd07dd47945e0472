"""CRC-32C (Castagnoli) of many records at once, with bulk operations on bytes only.

A CRC is linear: that of a record is the exclusive or of what each of its bytes contributes, and that depends only on
the byte and on its distance from the end. So records of one length are handled column by column: a column is translated
by a table, and columns are combined as large integers. That is ten times as fast as a loop over bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
# Fewer records of a length are faster one by one.
_FEW = 12
_LONGEST_COLUMNWISE = 512
_ROW = 256


def _first_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _first_table()


_tables = [_TABLE]


def _contributions(distance: int) -> list[int]:
    """Return what each byte contributes to a CRC, *distance* bytes before the end."""
    while len(_tables) <= distance:
        _tables.append([crc >> 8 ^ _TABLE[crc & 255] for crc in _tables[-1]])
    return _tables[distance]


@cache
def _columns(distance: int) -> tuple[bytes, ...]:
    """Return the same as four tables for ``bytes.translate``, the lowest byte of the CRC first."""
    table = _contributions(distance)
    return tuple(bytes(crc >> shift & 255 for crc in table) for shift in (0, 8, 16, 24))


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of *data*."""
    if len(data) > _LONGEST_COLUMNWISE:
        return _of_long(data)
    crc = _ALL_ONES
    table = _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ _ALL_ONES


def masked(crc: int) -> int:
    """Return *crc* as TensorBoard stores it."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES


def crc32c_of_each(records: Sequence[bytes]) -> list[int]:
    """Return the CRC-32C of each of *records*."""
    found = [0] * len(records)
    by_length: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        by_length.setdefault(len(record), []).append(index)
    for length, indexes in by_length.items():
        if len(indexes) < _FEW or length > _LONGEST_COLUMNWISE:
            for index in indexes:
                found[index] = crc32c(records[index])
            continue
        joined = b"".join([records[index] for index in indexes])
        seed = crc32c(bytes(length))
        for index, crc in zip(indexes, _raw_of_rows(joined, length), strict=True):
            found[index] = crc ^ seed
    return found


def raw_of_column(column: bytes, distance: int) -> int:
    """Return what the bytes of *column*, each *distance* bytes before the end of its record, contribute.

    The result is one integer: the lowest bytes of all CRCs, then the next bytes, and so on. Those of several columns
    are combined by exclusive or.
    """
    return int.from_bytes(b"".join([column.translate(table) for table in _columns(distance)]), "little")


def crcs_of(combined: int, count: int) -> list[int]:
    """Return the *count* CRCs that ``raw_of_column`` made."""
    columns = combined.to_bytes(4 * count, "little")
    interleaved = bytearray(4 * count)
    for part in range(4):
        interleaved[part::4] = columns[part * count : (part + 1) * count]
    return list(memoryview(bytes(interleaved)).cast("I")) if _IS_LITTLE else _slowly(bytes(interleaved))


def _raw_of_rows(joined: bytes, length: int) -> list[int]:
    """Return the CRC of each row of *length* bytes, from the state 0 and without inversion."""
    combined = 0
    for position in range(length):
        combined ^= raw_of_column(joined[position::length], length - 1 - position)
    return crcs_of(combined, len(joined) // length)


def _of_long(data: bytes) -> int:
    """Return the CRC-32C of more than four bytes, row by row."""
    # The state of all ones at the start equals inverting the first four bytes; leading zeros change nothing then.
    inverted = bytes(byte ^ 255 for byte in data[:4]) + data[4:]
    padded = bytes(-len(inverted) % _ROW) + inverted
    tables = [_contributions(_ROW - 1 - part) for part in range(4)]
    crc = 0
    for row in _raw_of_rows(padded, _ROW):
        shifted = tables[0][crc & 255] ^ tables[1][crc >> 8 & 255]
        crc = shifted ^ tables[2][crc >> 16 & 255] ^ tables[3][crc >> 24] ^ row
    return crc ^ _ALL_ONES


def _slowly(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


_IS_LITTLE = memoryview(b"\1\0\0\0").cast("I")[0] == 1
