"""Reads and writes the wire format of protocol buffers, without descriptions of messages."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_LONGEST_VARINT = 10
_UINT64 = 1 << 64


class MessageError(ValueError):
    """The bytes are not a message."""


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field: an unsigned integer, or bytes; raise MessageError."""
    at, end = 0, len(data)
    while at < end:
        key, at = varint_at(data, at)
        wire = key & 7
        if wire == VARINT:
            value: int | bytes
            value, at = varint_at(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            value = data[at : at + size]
            at += size
        elif wire == BYTES:
            size, at = varint_at(data, at)
            value = data[at : at + size]
            at += size
        else:
            raise MessageError(f"wire type {wire} is not known")
        if at > end:
            raise MessageError(f"field {key >> 3} ends after the message")
        yield key >> 3, wire, value


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned integer at *at* and where it ends; raise MessageError."""
    if at < len(data) and data[at] < 128:
        return data[at], at + 1
    value = shift = 0
    for byte in data[at : at + _LONGEST_VARINT]:
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value % _UINT64, at
        shift += 7
    raise MessageError("an integer is not complete")


class Message(dict[tuple[int, int], list[Any]]):
    """The values of the fields of a message, by number and wire type; of a field that is absent, its default."""

    def __init__(self, data: bytes) -> None:
        """Read *data*; raise MessageError."""
        super().__init__()
        for number, wire, value in fields(data):
            self.setdefault((number, wire), []).append(value)

    def parts(self, number: int) -> list[bytes]:
        """Return all values of a field of bytes, texts or messages."""
        return self.get((number, BYTES), [])

    def data(self, number: int) -> bytes:
        """Return the last value of such a field."""
        return bytes(self.get((number, BYTES), [b""])[-1])

    def text(self, number: int) -> str:
        """Return the last value of a field of texts."""
        return text(self.data(number))

    def integer(self, number: int) -> int:
        """Return the last value of a field of int64."""
        value = int(self.get((number, VARINT), [0])[-1])
        return value - _UINT64 if value >> 63 else value

    def double(self, number: int) -> float:
        """Return the last value of a field of doubles."""
        return float(struct.unpack("<d", self.get((number, FIXED64), [bytes(8)])[-1])[0])


def text(value: bytes) -> str:
    r"""Return the text of a string field; bytes that are not UTF-8 become ``\xff``."""
    return value.decode("utf-8", "backslashreplace")


def varint(value: int) -> bytes:
    """Return *value*, an int64 or uint64, as a varint."""
    value %= _UINT64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: bytes | str) -> bytes:
    """Return a field of bytes, text or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def integer_field(number: int, value: int) -> bytes:
    """Return a field of type int64, uint64, bool or an enumeration."""
    return varint(number << 3 | VARINT) + varint(value)


def double_field(number: int, value: float) -> bytes:
    """Return a field of type double."""
    return varint(number << 3 | FIXED64) + struct.pack("<d", value)


def float_field(number: int, value: float) -> bytes:
    """Return a field of type float, a binary32."""
    return varint(number << 3 | FIXED32) + struct.pack("<f", value)
