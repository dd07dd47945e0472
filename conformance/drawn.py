"""Streams that went wrong: mutations of the corpus, drawn with a seed; and the smallest one with the same trouble."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from conformance.corpus import cases
from conformance.revisions import CURRENT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

MAX_SEED_BYTES = 6000
Sequence = TypeVar("Sequence", bytes, tuple[object, ...])

TOKENS = [
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\x00",
        b"\x00" * 40,
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
    ),
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\u0000"),
    *(b"NaN", b"-Infinity", b"1e999", b"-1e999", b"1e-400", b"-0", b"-0.0", b"1.0", b"1E2", b"01", b"1.", b".5", b"+1"),
    *(b"9007199254740993", b"18446744073709551616", b"1" * 310, b"0.1", b"3.4028235677973366e38", b"null", b"true"),
    *(
        b"[" * 64,
        b"]" * 64,
        b'{"a":' * 63,
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"\x0b",
        b"\x7f",
        b"\x1b[2J",
        b"\xf0\x9f\x98\x80",
    ),
    *(
        b'"kind":"step",',
        b'"kind":"run_end",',
        b'"kind":null,',
        b'"type":"scalar",',
        b'"step":1,',
        b'"\\u006bind":"step",',
    ),
    *(
        b'{"kind":"run_end","t":9.0,"reason":"completed"}\n',
        b'{"kind":"note","t":1.0,"text":"x"}\n',
        b"{}\n",
        b"[]\n",
        b"\t \n",
    ),
]


@cache
def seeds(revision: str = CURRENT) -> tuple[bytes, ...]:
    """Return the streams of the corpus of *revision* that are short enough to change much in them."""
    return tuple(sorted({case.data for case in cases((), revision) if 0 < len(case.data) <= MAX_SEED_BYTES}))


def mutated(chance: random.Random, revision: str = CURRENT) -> bytes:
    """Return a stream of the corpus of *revision* with one to six changes."""
    data = bytearray(chance.choice(seeds(revision)))
    for _ in range(chance.randint(1, 6)):
        chance.choice(_CHANGES)(data, chance)
    return bytes(data)


def _flip(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice(
            b'\x00\x01\x1f \t\n\r"\\{}[],:0123456789eE+-.aNIn\x7f\x80\xbf\xc2\xed\xff'
        )


def _insert(data: bytearray, chance: random.Random) -> None:
    place = chance.randint(0, len(data))
    data[place:place] = chance.choice(TOKENS)


def _overwrite(data: bytearray, chance: random.Random) -> None:
    place, token = chance.randint(0, len(data)), chance.choice(TOKENS)
    data[place : place + len(token)] = token


def _cut_out(data: bytearray, chance: random.Random) -> None:
    place = chance.randint(0, len(data))
    del data[place : place + chance.choice([1, 1, 2, 5, 20, 100])]


def _cut_off(data: bytearray, chance: random.Random) -> None:
    del data[chance.randint(0, len(data)) :]


def _copy(data: bytearray, chance: random.Random) -> None:
    start, place = chance.randint(0, len(data)), chance.randint(0, len(data))
    data[place:place] = data[start : start + chance.choice([1, 5, 20, 100])]


def _splice(data: bytearray, chance: random.Random) -> None:
    other = chance.choice(seeds())
    data[chance.randint(0, len(data)) :] = other[chance.randint(0, len(other)) :]


def _swap_lines(data: bytearray, chance: random.Random) -> None:
    lines = bytes(data).split(b"\n")
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    data[:] = b"\n".join(lines)


def _change_number(data: bytearray, chance: random.Random) -> None:
    places = [index for index, byte in enumerate(data) if byte in b"0123456789"]
    if places:
        place = chance.choice(places)
        end = place + 1
        while end < len(data) and data[end] in b"0123456789.eE+-":
            end += 1
        numbers = [
            b"0",
            b"-1",
            b"1.0",
            b"1e2",
            b"1e999",
            b"-0",
            b"0.1",
            b"1e16",
            b"4294967296",
            b"9007199254740993",
            b"NaN",
            b"1e-7",
        ]
        data[place:end] = chance.choice(numbers)


_VALUES: tuple[Any, ...] = (
    *(0, -1, 7, 2**53, 10**25, 0.5, 1e300, -0.0, None, True, False, "", "a", "train", "2026-05-31T10:00:00Z"),
    *([], [2**53], [1, "a", 2**53], {}, {"a": 2**53}, {"a": {"b": [None]}}, {"int": "1"}),
)


def _change_value(data: bytearray, chance: random.Random) -> None:
    """Put another JSON value, or a member more, into an object of a line that is JSON."""
    lines = bytes(data).split(b"\n")
    place = chance.randrange(len(lines))
    try:
        record = json.loads(lines[place])
    except (ValueError, RecursionError):
        return
    inside = record
    while isinstance(inside, (dict, list)) and inside:
        key: Any = chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        if not isinstance(inside[key], (dict, list)) or chance.random() < 0.5:
            inside[key] = chance.choice(_VALUES)
            break
        if isinstance(inside[key], list) and chance.random() < 0.5:
            inside[key].append(chance.choice(_VALUES))
            break
        inside = inside[key]
    lines[place] = json.dumps(record, separators=(",", ":")).encode()
    data[:] = b"\n".join(lines)


_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip,
    _set,
    _insert,
    _insert,
    _overwrite,
    _cut_out,
    _cut_off,
    _copy,
    _splice,
    _swap_lines,
    _change_number,
    _change_value,
    _change_value,
    _change_value,
)


def shrunk(whole: Sequence, has_trouble: Callable[[Sequence], bool]) -> Sequence:
    """Return a part of *whole* with the same trouble from which no part can be left out."""
    size = max(1, len(whole) // 2)
    while True:
        for start in range(0, len(whole), size):
            candidate = whole[:start] + whole[start + size :]
            if has_trouble(candidate):
                whole = candidate
                break
        else:
            if size == 1:
                return whole
            size = max(1, size // 2)
