"""Rows as CSV that a spreadsheet reads as data, never as a formula."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from toyspec.escaping import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

Cell = str | float | bool | None

# A spreadsheet reads the text of a cell as a formula if it begins with one of these.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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
