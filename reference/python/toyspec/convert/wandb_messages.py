"""The messages in W&B run files, decoded without descriptions: the field numbers are those of wandb 0.31."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from toyspec.convert.protobuf import BYTES, FIXED64, VARINT, MessageError, fields, members, signed, text

HISTORY, SUMMARY, OUTPUT, CONFIG, STATS, ALERT, METRIC, OUTPUT_RAW = 2, 3, 4, 5, 7, 10, 12, 13
RUN, EXIT, ENVIRONMENT = 17, 18, 26
ARTIFACT, USED_ARTIFACT = 8, 25
OTHER_ITEMS = {9: "TensorBoard file", 23: "preempting"}
"""Records that are items and have no place."""

_LATER = frozenset([*OTHER_ITEMS, RUN, EXIT, ENVIRONMENT, USED_ARTIFACT])

_VALUE = b"\x82\x01"
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


STEP_METRIC = "train/step"
"""The metric that all others of an exported or mirrored run are drawn over; ``_step`` counts its rows."""


def kind_and_body(record: bytes) -> tuple[int, bytes]:
    """Return the number and the content of the message in *record*; 0 if it has none that is known."""
    found = (0, b"")
    for number, wire, value in fields(record):
        if wire == BYTES and (number in _LATER or HISTORY <= number <= OUTPUT_RAW):
            found = (number, value)
            if number in (HISTORY, SUMMARY):
                break
    return found


def pairs(body: bytes) -> list[tuple[str, Any]]:
    """Return name and value of each item of a history, summary, config or stats; raise MessageError.

    Names of nested objects are joined by a dot, as W&B shows them.
    """
    found: list[tuple[str, Any]] = []
    at, end = 0, len(body)
    # Most items are short, and have a name and JSON text.
    while at + 3 < end and body[at] == 0x0A and body[at + 1] < 128:
        stop = at + 2 + body[at + 1]
        value = body.find(_VALUE, at, stop) + 3
        if stop > end or not at + 2 < value <= stop or body[value - 1] != stop - value:
            break
        name = _name(body[at + 2 : value - 3])
        if name is None:
            break
        found.append((name, value_of(body[value:stop])))
        at = stop
    # Items of stats have the number 3.
    return found + [_pair(item) for number, wire, item in fields(body[at:]) if number in (1, 3) and wire == BYTES]


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


def step_of(body: bytes) -> int | None:
    """Return the step that follows the items of a history; None if there is none."""
    said = [members(value) for number, wire, value in fields(body) if number == 2 and wire == BYTES]
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
