"""The messages in W&B run files, decoded without descriptions: the field numbers are those of wandb 0.31."""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.convert.protobuf import BYTES, FIXED64, VARINT, MessageError, fields, members, signed, text, varint_at

if TYPE_CHECKING:
    from collections.abc import Container

HISTORY, SUMMARY, OUTPUT, CONFIG, STATS, ALERT, METRIC, OUTPUT_RAW = 2, 3, 4, 5, 7, 10, 12, 13
RUN, EXIT, ENVIRONMENT = 17, 18, 26
ARTIFACT, USED_ARTIFACT = 8, 25
OTHER_ITEMS = {9: "TensorBoard file", 23: "preempting"}
"""Records that are items and have no place."""

_LATER = frozenset([*OTHER_ITEMS, RUN, EXIT, ENVIRONMENT, USED_ARTIFACT])

_NUMBER, _VALUE = b"\x08", b"\x82\x01"
_NUMBERS = re.compile(rb"(\n([\0-\x7f])([^\x82]{1,124})\x82\x01([\0-\x7f])([-+.0-9eE]+))")
"""Items whose values look like numbers: the length, what comes before the value, the length of the value, the value."""
_QUICK = {b"\x12": HISTORY, b"\x1a": SUMMARY}
_MOST_NUMBER_BYTES = 11
_BARE = {b"NaN": float("nan"), b"Infinity": float("inf"), b"-Infinity": -float("inf")}
_NOT_A_VALUE = object()
_decode = msgspec.json.Decoder().decode


class RunMessage(NamedTuple):
    """The facts of a run record."""

    run_id: str
    facts: dict[str, Any]
    """Members of run_start."""
    others: dict[str, str]
    """What has no place there."""
    config: dict[str, Any]
    start: float | None
    """Seconds since the Unix epoch."""


def kind_and_body(record: bytes) -> tuple[int, bytes]:
    """Return the number and the content of the message in *record*; 0 if it has none that is known."""
    quick = _numbered(record)
    if quick is not None:
        return quick
    found = (0, b"")
    for number, wire, value in fields(record):
        if wire == BYTES and (number in _LATER or HISTORY <= number <= OUTPUT_RAW):
            found = (number, value)
            if number in (HISTORY, SUMMARY):
                break
    return found


def _numbered(record: bytes) -> tuple[int, bytes] | None:
    """Return what ``kind_and_body`` does for a history or a summary after the number of the record; None for others."""
    at = 0
    if record[:1] == _NUMBER:
        at = 1
        while record[at : at + 1] > b"\x7f":
            at += 1
        at += 1
    kind = _QUICK.get(record[at : at + 1])
    if kind is None or at > _MOST_NUMBER_BYTES:
        return None
    size, at = varint_at(record, at + 1)
    return (kind, record[at : at + size]) if at + size <= len(record) else None


def pairs(body: bytes) -> list[tuple[str, Any]]:
    """Return name and value of each item of a history, summary, config or stats; raise MessageError.

    Names of nested objects are joined by a dot, as W&B shows them.
    """
    return pairs_of(*short_items(body))


def pairs_of(short: list[tuple[str, bytes]], rest: bytes) -> list[tuple[str, Any]]:
    """Return the ``pairs`` of a body whose ``short_items`` are given."""
    found = [(name, value_of(value)) for name, value in short]
    # Items of stats have the number 3.
    return found + [_pair(item) for number, wire, item in fields(rest) if number in (1, 3) and wire == BYTES]


def new_pairs(body: bytes, known: Container[str]) -> list[tuple[str, Any]]:
    """Return the ``pairs`` whose names are not *known*, for records that repeat most of what was said before."""
    short, rest = short_items(body)
    found = [(name, value_of(value)) for name, value in short if name not in known]
    return found + [_pair(item) for number, wire, item in fields(rest) if number == 1 and wire == BYTES]


def short_items(body: bytes) -> tuple[list[tuple[str, bytes]], bytes]:
    """Return name and JSON text of the first items that are short, and what follows them."""
    numbers = _NUMBERS.findall(body)
    found = [
        (name, number)
        for _, length, key, size, number in numbers
        if size[0] == len(number) and length[0] == len(key) + len(number) + 3 and (name := _name(key)) is not None
    ]
    read = b"".join([item[0] for item in numbers])
    # Most rows have numbers only, and an expression finds them in a fraction of the time.
    if len(found) < len(numbers) or not body.startswith(read):
        found, read = [], b""
    return _short_items(body, found, len(read))


def _short_items(body: bytes, found: list[tuple[str, bytes]], at: int) -> tuple[list[tuple[str, bytes]], bytes]:
    """Return what ``short_items`` does; the items before *at* are *found* already."""
    end = len(body)
    while at + 3 < end and body[at] == 0x0A and body[at + 1] < 128:
        stop = at + 2 + body[at + 1]
        value = body.find(_VALUE, at, stop) + 3
        if stop > end or not at + 2 < value <= stop or body[value - 1] != stop - value:
            break
        name = _name(body[at + 2 : value - 3])
        if name is None:
            break
        found.append((name, body[value:stop]))
        at = stop
    return found, body[at:]


@lru_cache(maxsize=1 << 14)
def _name(data: bytes) -> str | None:
    """Return the name in the first fields of an item, *data*; None if there is anything else in them."""
    try:
        found = list(fields(data))
    except MessageError:
        return None
    is_name = all(wire == BYTES and number in (1, 2) for number, wire, _ in found)
    return _joined(found) if is_name else None


def _joined(found: list[tuple[int, int, Any]]) -> str:
    nested = [text(part) for number, _, part in found if number == 2]
    return ".".join(nested) if nested else next((text(part) for number, _, part in reversed(found)), "")


def _pair(item: bytes) -> tuple[str, Any]:
    key, nested, value = "", [], None
    for number, wire, part in fields(item):
        if number == 1 and wire == BYTES:
            key = text(part)
        elif number == 2 and wire == BYTES:
            nested.append(text(part))
        else:
            typed = _typed(number, wire, part)
            value = value if typed is _NOT_A_VALUE else typed
    return ".".join(nested) if nested else key, value


def _typed(number: int, wire: int, part: Any) -> Any:
    if number == 16 and wire == BYTES:
        return value_of(part)
    if number == 4 and wire == VARINT:
        return bool(part)
    if number == 5 and wire == VARINT:
        return part >> 1 ^ -(part & 1)  # sint64
    if number == 6 and wire == FIXED64:
        return struct.unpack("<d", part)[0]
    if number == 7 and wire == BYTES:
        return text(part)
    return value_of(part) if number == 8 and wire == BYTES else _NOT_A_VALUE


def value_of(data: bytes) -> Any:
    """Return the value of JSON text, which may be a bare NaN or infinity; other text is returned unchanged."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _BARE.get(data, text(data))


def step_of(rest: bytes) -> int | None:
    """Return the step that follows the items of a history, whose *rest* is given; None if there is none."""
    said = [members(value) for number, wire, value in fields(rest) if number == 2 and wire == BYTES]
    return said[0].get(1, 0) if said else None


def run_of(body: bytes) -> RunMessage:
    """Return what a run record says."""
    parts: dict[int, list[bytes]] = {}
    for number, wire, value in fields(body):
        if wire == BYTES and value:
            parts.setdefault(number, []).append(value)
    facts: dict[str, Any] = {name: text(parts[number][-1]) for number, name in _RUN_FACTS.items() if number in parts}
    if 10 in parts:
        facts["tags"] = [text(tag) for tag in parts[10]]
    if 13 in parts:
        facts["host"] = {"name": text(parts[13][-1])}
    if 21 in parts:
        git = members(parts[21][-1])
        named = {"sha": git.get(2), "remote": git.get(1)}
        facts["git"] = {key: text(item) for key, item in named.items() if isinstance(item, bytes)}
    return RunMessage(
        run_id=text(parts.get(1, [b""])[-1]),
        facts=facts,
        others={name: text(parts[number][-1]) for number, name in _RUN_OTHERS.items() if number in parts},
        config={key: item for part in parts.get(4, []) for key, item in pairs(part)},
        start=timestamp(parts[17][-1]) if 17 in parts else None,
    )


_RUN_FACTS = {6: "group", 8: "name", 9: "notes"}
_RUN_OTHERS = {2: "entity", 3: "project", 7: "job_type", 12: "sweep_id"}


def timestamp(data: Any) -> float | None:
    """Return a timestamp message in seconds."""
    if not isinstance(data, bytes):
        return None
    found = members(data)
    seconds, nanos = found.get(1, 0), found.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        return None
    return signed(seconds) + nanos / 1e9


def definition_of(body: bytes) -> dict[str, str]:
    """Return the members of a ``define`` that a metric record gives; without a name if it has none."""
    found = members(body)
    made: dict[str, str] = {}
    name = text(found.get(1)) or text(found.get(2))
    if name:
        made["name"] = name
    goals = {1: "min", 2: "max"}
    summary = members(found[7]) if isinstance(found.get(7), bytes) else {}
    goal = goals.get(found.get(8, 0)) or next((goals[number] for number in goals if summary.get(number)), None)
    if goal:
        made["goal"] = goal
    if isinstance(found.get(4), bytes) and found[4]:
        made["step_name"] = text(found[4])
    return made


__all__ = [
    "MessageError",
    "RunMessage",
    "definition_of",
    "kind_and_body",
    "pairs",
    "run_of",
    "short_items",
    "timestamp",
]
