"""Tables as other programs keep them, as JSON, and as the CSV that ``media`` has."""

from __future__ import annotations

import csv
import os
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.convert.sources import object_in
from toyspec.core.files import open_text
from toyspec.core.writing.media import File, Media, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES: Final = 1 << 26
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|inf)|nan")


def table_of_file(path: str, rows: str, *, caption: str | None = None) -> Media:
    """Return the table in the JSON file at *path*, with the members ``columns`` and *rows*; the file if it has none."""
    found = object_in(path, longest=_MOST_BYTES) or {}
    columns, data = found.get("columns"), found.get(rows)
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        return table_of(columns, data, caption=caption)
    return File(path, caption=caption)


def table_of(columns: Sequence[Any], rows: Sequence[Sequence[Any]], *, caption: str | None = None) -> Table:
    """Return the table of *rows*; a cell that is neither a number nor a text is JSON text."""
    return Table([[_cell(cell) for cell in row] for row in rows], [str(each) for each in columns], caption=caption)


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    return msgspec.json.encode(value).decode()


def rows_of(path: str) -> tuple[list[str], list[list[Any]]] | None:
    """Return columns and rows of the CSV file at *path*; a column of numbers has numbers, an empty cell is None.

    None for another file, or a very large one.
    """
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            return None
        with open_text(path, newline="") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    if not lines or any(len(line) != len(lines[0]) for line in lines):
        return None
    columns = [_typed([line[at] for line in lines[1:]]) for at in range(len(lines[0]))]
    return lines[0], [list(row) for row in zip(*columns, strict=True)]


def _typed(cells: list[str]) -> list[Any]:
    """Return the numbers of a column in which all are written as one; a name such as 007 or 1_0 is none."""
    filled = [cell for cell in cells if cell]
    if all(map(_NUMBER.fullmatch, filled)):
        number = int if all(map(_INTEGER.fullmatch, filled)) else float
        return [number(cell) if cell else None for cell in cells]
    return [cell or None for cell in cells]
