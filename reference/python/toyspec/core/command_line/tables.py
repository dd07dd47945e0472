"""Rows of cells in columns, and as CSV that a spreadsheet reads as data, never as a formula."""

from __future__ import annotations

import csv
import io
from itertools import repeat
from typing import TYPE_CHECKING, Literal

from toyspec.core.command_line.columns import cut_apart, width
from toyspec.core.escaping import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

Side = Literal["left", "right"]
_GAP = "  "
_LEAST_NAME_COLUMNS = 20
Cell = str | float | bool | None
# A spreadsheet reads the text of a cell as a formula if it begins with one of these.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def lined_up(rows: Sequence[Sequence[str]], sides: Sequence[Side]) -> Iterator[list[str]]:
    """Yield each row with its cells filled to the width of their columns, the text aligned as *sides* says."""
    columns = [filled(column, side) for column, side in zip(zip(*rows, strict=True), sides, strict=True)]
    return map(list, zip(*columns, strict=True))


def lined(columns: Sequence[Sequence[str]], sides: Sequence[Side]) -> Iterator[str]:
    """Yield the line of each row of a table that is given by its *columns*, as ``joined`` of ``lined_up`` does."""
    return map(str.rstrip, map(_GAP.join, zip(*map(filled, columns, sides), strict=True)))


def filled(column: Sequence[str], side: Side) -> Iterator[str]:
    """Yield the cells of a column, filled to one width."""
    if "".join(column).isascii():
        fill = str.rjust if side == "right" else str.ljust
        return map(fill, column, repeat(max(map(len, column))))
    widths = list(map(width, column))
    most = max(widths)
    gaps = (" " * (most - each) for each in widths)
    return (gap + cell if side == "right" else cell + gap for cell, gap in zip(column, gaps, strict=True))


def joined(cells: Sequence[str]) -> str:
    """Return the line of a row."""
    return _GAP.join(cells).rstrip()


def fitted(table: list[list[str]], room: int, droppable: Sequence[int]) -> list[int]:
    """Cut the names in the first column of *table* to fit *room* columns; return the columns to hide for that.

    The first row has the titles. Those of *droppable* are hidden, in their order, until the names have room or there
    are no more.
    """
    widths = [max(map(width, column)) for column in zip(*table, strict=True)]
    least = min(widths[0], _LEAST_NAME_COLUMNS)
    hidden: list[int] = []

    def left() -> int:
        return room - sum(each + len(_GAP) for index, each in enumerate(widths) if index and index not in hidden)

    while left() < least and len(hidden) < len(droppable):
        hidden.append(droppable[len(hidden)])
    rows = table[1:]
    for row, name in zip(rows, cut_apart([row[0] for row in rows], left()), strict=True):
        row[0] = name
    return sorted(hidden)


def csv_row(cells: Sequence[Cell]) -> str:
    """Return *cells* as one line after RFC 4180, without its end.

    Numbers are written as numbers, None as an empty cell. Strings are inert; an apostrophe precedes one
    that a spreadsheet would read as a formula.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(map(_inert, cells))
    return line.getvalue()


def write_csv(stream: TextIO, rows: Iterable[Sequence[Cell]]) -> None:
    """Write *rows* as lines of ``csv_row``."""
    csv.writer(stream, lineterminator="\n").writerows(map(_inert, row) for row in rows)


def _inert(cell: Cell) -> str | float | None:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if text.startswith(_FORMULA) or cell.startswith(_FORMULA) else text
