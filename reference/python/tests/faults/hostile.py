"""Streams that are made to hurt, each within what a stream may be; see the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from faults.tally import IS_LONG
from toyspec.core.generated.limits import MAX_DEPTH, MAX_LINE_BYTES

_MIB = 1 << 20
LINE_BYTES = MAX_LINE_BYTES if IS_LONG else _MIB // 4
"""Length of the long lines; time and memory follow it in proportion."""
STREAM_BYTES = _MIB if IS_LONG else _MIB // 4
"""Length of the streams of many short lines, whose number tells how long they take."""
START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"hostile"}\n'


def _line(head: bytes, unit: bytes, tail: bytes, size: int = LINE_BYTES) -> Iterator[bytes]:
    count = (size - len(head) - len(tail)) // len(unit)
    yield START + head
    for start in range(0, count, 1 << 16):
        yield unit * min(1 << 16, count - start)
    yield tail


def _short_lines(unit: bytes, size: int = STREAM_BYTES) -> Iterator[bytes]:
    return _line(b"", unit, b"", size) if b"%d" not in unit else _numbered(b"", unit, b"", size)


def _numbered(head: bytes, unit: bytes, tail: bytes, size: int = LINE_BYTES) -> Iterator[bytes]:
    yield START + head
    number = 0
    room = size - len(head) - len(tail)
    while True:
        piece = b"".join(unit % number for number in range(number, number + 4096))
        room -= len(piece)
        if room < 0:
            break
        number += 4096
        yield piece
    yield tail


HOSTILE: dict[str, Callable[[], Iterator[bytes]]] = {
    "H20 S01 a line that never ends": lambda: _line(b"", b"x" * 1024, b"", 64 * _MIB),
    "H20 a line beyond the limit": lambda: _line(b'{"a":"', b"x" * 1024, b'"}\n', 64 * _MIB),
    "H20 a long string": lambda: _line(b'{"kind":"note","t":0.0,"text":"', b"x", b'"}\n'),
    "H20 a string of escapes": lambda: _line(b'{"kind":"note","t":0.0,"text":"', b"\\u0041", b'"}\n'),
    "H20 a list of objects": lambda: _line(b'{"kind":"x","a":[', b"{},", b"0]}\n"),
    "H20 a list of numbers": lambda: _line(b'{"kind":"x","a":[', b"0.5,", b"0]}\n"),
    "H21 many keys": lambda: _numbered(b'{"kind":"x"', b',"%d":0', b"}\n"),
    "H01 many repeated keys": lambda: _line(b'{"kind":"x"', b',"a":0', b"}\n"),
    "H10 many lone surrogates": lambda: _line(b'{"kind":"x","a":"', b"\\ud800", b'"}\n'),
    "H02 many numbers that are none": lambda: _line(b'{"kind":"x","a":[', b"NaN,", b"0]}\n"),
    "H07 a number of a million digits": lambda: _line(b'{"kind":"step","t":0.0,"step":', b"1", b"}\n"),
    "H07 a fraction of a million digits": lambda: _line(b'{"kind":"step","step":1,"t":0.', b"1", b"}\n"),
    "H19 deep nesting": lambda: _line(b'{"a":', b"[", b"\n"),
    "H20 a list of objects with two keys": lambda: _line(b'{"kind":"x","a":[', b'{"a":0,"b":0},', b"0]}\n"),
    "H20 a list of empty texts": lambda: _line(b'{"kind":"x","a":[', b'"",', b"0]}\n"),
    "H20 a list of lists": lambda: _line(b'{"kind":"x","a":[', b"[[[]]],", b"0]}\n"),
    "H19 a list as deep as allowed": lambda: _line(b'{"kind":"x","a":[', b"[" * 62 + b"]" * 62 + b",", b"0]}\n"),
    "H19 many records as deep as allowed": lambda: _short_lines(
        b'{"kind":"x","a":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}\n"
    ),
    "D01 nothing but NUL": lambda: _line(b"", bytes(1024), b"", 64 * _MIB),
    "H16 nothing but LF": lambda: _short_lines(b"\n"),
    "H17 many damaged lines": lambda: _short_lines(b"{]\n", STREAM_BYTES // 8),
    "H22 many unknown kinds": lambda: _short_lines(b'{"kind":"k%d"}\n', STREAM_BYTES // 4),
    "H22 many unknown keys": lambda: _short_lines(b'{"kind":"note","t":0.0,"text":"","k%d":1}\n'),
    "H22 many open regions": lambda: _short_lines(b'{"kind":"region_enter","t":0.0,"region":"r%d"}\n'),
    "H21 many columns of numbers": lambda: _short_lines(b'{"kind":"step","t":0.0,"step":1,"extra":{"x%d":1.0}}\n'),
}
