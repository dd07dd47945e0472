"""Rows of cells in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from toyspec.cli.columns import width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Side = Literal["left", "right"]

_GAP = "  "


def lined_up(rows: Sequence[Sequence[str]], sides: Sequence[Side]) -> Iterator[list[str]]:
    """Yield each row with its cells filled to the width of their columns, the text aligned as *sides* says."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield [
            " " * (columns - width(cell)) + cell if side == "right" else cell + " " * (columns - width(cell))
            for cell, columns, side in zip(row, widths, sides, strict=True)
        ]


def joined(cells: Sequence[str]) -> str:
    """Return the line of a row."""
    return _GAP.join(cells).rstrip()
