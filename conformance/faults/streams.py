"""What is in a stream: the names of its records, and what is wrong with its bytes."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import Any, NamedTuple

FOREIGN_KIND = "foreign"
"""The kind of the records that stand for those of another process."""


class Found(NamedTuple):
    """The contents of one stream."""

    names: list[str]
    """The records that the runner asked for, in order, as ``name_of`` names them."""
    own: list[str]
    """The texts of the notes that the library wrote by itself."""
    broken: list[bytes]
    """The lines that are not a JSON object."""
    fragment: bytes
    """What follows the last LF."""


def found_in(path: str) -> Found:
    """Return what is in the stream at *path*; nothing where there is none."""
    found = Found([], [], [], b"")
    if not os.path.exists(path):
        return found
    with open(path, "rb") as file:
        *lines, fragment = file.read().split(b"\n")
    for line in lines:
        record = _parsed(line)
        if record is None:
            found.broken.append(line)
        elif record.get("kind") == FOREIGN_KIND:
            continue
        elif record.get("kind") == "note" and "step" not in record:
            found.own.append(str(record.get("text")))
        else:
            found.names.append(name_of(record))
    return found._replace(fragment=fragment)


def name_of(record: dict[str, Any]) -> str:
    """Return what the runner calls *record*: its kind, or ``entry``, and its number."""
    kind = record.get("kind") or ("entry" if "wall_time_ms" in record else "record")
    return f"{kind} {record['step']}" if "step" in record else str(kind)


def name_of_command(command: str) -> str:
    """Return the name of the record that *command* writes, empty where it writes none."""
    word, *rest = command.split(" ")
    if word in {"step", "note", "entry"}:
        return f"{word} {rest[0]}"
    return {"start": "run_start", "resume": "run_resume", "end": "run_end"}.get(word, "")


def count_in(note: str) -> int:
    """Return how many dropped records a note of the library counts."""
    number = re.search(r"[0-9]+", note)
    return int(number[0]) if number else 0


def wrong_in(found: Found, acknowledged: list[str]) -> list[str]:
    """Return what is wrong with a stream that is to have the *acknowledged* records, once each and in order."""
    wrong = [f"a broken line: {line[:60]!r}" for line in found.broken[:2]]
    counts, asked = Counter(found.names), set(acknowledged)
    lost = [name for name in acknowledged if name not in counts]
    if lost:
        wrong.append(f"{len(lost)} acknowledged lost, first {lost[0]}")
    twice = sorted(name for name, count in counts.items() if count > 1)
    wrong += [f"twice: {name}" for name in twice[:2]]
    in_order = [name for name in found.names if name in asked]
    if not lost and not twice and in_order != acknowledged:
        wrong.append("records are out of order")
    return wrong


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
