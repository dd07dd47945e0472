"""Rows as CSV that a spreadsheet reads as data, never as a formula."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from toyspec.escaping import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

Cell = str | float | bool | None

# What makes a spreadsheet take the text of a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_row(cells: Sequence[Cell]) -> str:
    """Return *cells* as one line after RFC 4180, without its end.

    Numbers are written as numbers, None as an empty cell. Strings are inert, and one that a spreadsheet would
    take for a formula begins with an apostrophe.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(map(_inert, cells))
    return line.getvalue()


def _inert(cell: Cell) -> str | float | None:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if text.startswith(_FORMULA) or cell.startswith(_FORMULA) else text
