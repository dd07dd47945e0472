"""The records of the chaos: each has a number, and the rest follows from it, so that a wrong one is seen.

They are read by a reader of its own, so that a defect of the package does not hide another one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toyspec.core.writing.run_writer import RunWriter

_NOTES = 11
"""One record in so many is a text."""


def write(run: RunWriter, number: int) -> None:
    """Log the record *number*."""
    if number % _NOTES:
        run.log({"number": number, "double": 2 * number}, step=number)
    else:
        run.note(_text(number))


def number_of(record: dict[str, Any]) -> int | None:
    """Return the number of a record, None for one that the writer adds; raise ValueError for a wrong one."""
    values = record.get("values")
    if isinstance(values, dict) and "number" in values:
        number = int(values["number"])
        if values != {"number": number, "double": 2 * number} or record.get("step") != number:
            raise ValueError(f"a wrong record: {record}")
        return number
    text = record.get("text")
    if record.get("kind") == "note" and isinstance(text, str) and text.startswith("number "):
        number = int(text.split(" ")[1])
        if text != _text(number):
            raise ValueError(f"a wrong text: {text[:80]}")
        return number
    return None


def numbers_in(data: bytes) -> tuple[list[int], int]:
    """Return the numbers of the records in a log, in order, and the number of whole lines that cannot be read.

    Raises ValueError for a wrong record.
    """
    numbers, unreadable = [], 0
    for line in data.split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            unreadable += 1
            continue
        number = number_of(record)
        if number is not None:
            numbers.append(number)
    return numbers, unreadable


def _text(number: int) -> str:
    return f"number {number} {'x' * (number * 7919 % 3000)}"
