"""The curves of a run as one block of numbers: what the cache keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.engine import native
from toyspec.view.buckets import COLUMNS
from toyspec.view.pyramids import EnginePyramid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.view.buckets import Buckets
    from toyspec.view.pyramids import AnyPyramid

ITEM = 8
"""Bytes of a number."""


class Packing:
    """Columns of curves, equal ones once."""

    def __init__(self) -> None:
        engine = native()
        self._engine = None if engine is None else engine.Packing()
        self._kept: dict[bytes, int] = {}
        self._items = 0

    def levels(self, curve: AnyPyramid, fewest: int) -> list[dict[str, Any]]:
        """Add the buckets of *curve*, then each time half as many, down to *fewest* at most; say where they are.

        A column is at an item of ``data``, or has one value, in a list.
        """
        if self._engine is not None and isinstance(curve, EnginePyramid):
            found: list[dict[str, Any]] = self._engine.levels(curve.native, fewest)
            return found
        return [self._described(each) for each in _halved(curve.buckets(), fewest)]

    def data(self) -> bytes:
        """Return all columns, in the layout of this machine."""
        return b"".join(self._kept) if self._engine is None else self._engine.data()

    def _described(self, buckets: Buckets) -> dict[str, Any]:
        columns: list[int | list[float | None]] = []
        for name in COLUMNS:
            data = buckets.columns[name].tobytes()
            if data and data == data[:ITEM] * buckets.number:
                first = buckets.columns[name][0]
                columns.append([None if first != first else first])  # noqa: PLR0124 - NaN alone differs from itself
                continue
            if data not in self._kept:
                self._kept[data] = self._items
                self._items += buckets.number
            columns.append(self._kept[data])
        return {"count": buckets.number, "level": buckets.level, "tail": buckets.tail, "columns": columns}


def _halved(buckets: Buckets, fewest: int) -> Iterator[Buckets]:
    yield buckets
    while buckets.number > fewest:
        buckets = buckets.halved()
        yield buckets
