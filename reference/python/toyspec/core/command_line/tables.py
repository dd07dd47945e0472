"""Text in columns of a terminal, rows of cells, and CSV that a spreadsheet reads as data, never as a formula."""

from __future__ import annotations

import csv
import io
from itertools import repeat
from typing import TYPE_CHECKING, Literal

from toyspec.core.escaping import printable
from toyspec.core.runs.names import ELLIPSIS, cut_shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def width(text: str) -> int:
    """Return the number of columns that *text* takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(letter) in {"Mn", "Me"} else 2 if east_asian_width(letter) in "WF" else 1 for letter in text
    )


def cut(text: str, limit: int) -> str:
    """Return *text*, cut at its end to *limit* columns; a cut shows as an ellipsis."""
    if width(text) <= limit:
        return text
    return _fitting(text, limit - 1) + ELLIPSIS


def cut_start(text: str, limit: int) -> str:
    """Return *text*, cut at its start to *limit* columns; a cut shows as an ellipsis."""
    if width(text) <= limit:
        return text
    return ELLIPSIS + _fitting(text[::-1], limit - 1)[::-1]


def cut_middle(text: str, limit: int) -> str:
    """Return *text*, cut in its middle to *limit* columns; a cut shows as an ellipsis."""
    if width(text) <= limit:
        return text
    end = (limit - 1) // 2
    return _fitting(text, limit - 1 - end) + ELLIPSIS + _fitting(text[::-1], end)[::-1]


def cut_apart(texts: Sequence[str], limit: int) -> list[str]:
    """Return *texts*, cut to *limit* columns, at least 8; all are whole where cuts would make different ones alike.

    The words that all have are cut first; a text that is still too wide loses its middle.
    """
    limit = max(limit, 8)
    shared = dict(zip(texts, cut_shared(texts, limit, width), strict=True))
    cuts = {text: cut_middle(each, limit) for text, each in shared.items()}
    found = cuts if len(set(cuts.values())) == len(cuts) else shared
    return [found[text] for text in texts]


def some_of(names: Sequence[str], most: int) -> str:
    """Return at most *most* of *names* in one line, and the number of the others."""
    left_out = len(names) - most
    return ", ".join(names[:most]) + (f", and {left_out} more" if left_out > 0 else "")


def padded(text: str, columns: int) -> str:
    """Return *text* filled with spaces to *columns* columns."""
    return text + " " * (columns - width(text))


def wrapped(text: str, limit: int, indent: str = "") -> list[str]:
    """Return *text* broken between words into lines of at most *limit* columns; those after the first get *indent*.

    A word that is longer than a line stays whole. Spaces at the start of the text stay.
    """
    words = text.lstrip(" ").split(" ")
    lines = [text[: len(text) - len(text.lstrip(" "))] + words[0]]
    for word in words[1:]:
        if width(lines[-1]) + 1 + width(word) > limit:
            lines.append(indent + word)
        else:
            lines[-1] += f" {word}"
    return lines


def _fitting(text: str, limit: int) -> str:
    if text.isascii():
        return text[: max(limit, 0)]
    taken = 0
    for index, letter in enumerate(text):
        taken += width(letter)
        if taken > limit:
            return text[:index]
    return text


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
    shortest = map(width, cut_shared([row[0] for row in table[1:]], 0, width))
    least = max(min(widths[0], _LEAST_NAME_COLUMNS), *shortest)
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


def _inert(cell: Cell) -> str | float | None:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if text.startswith(_FORMULA) or cell.startswith(_FORMULA) else text
