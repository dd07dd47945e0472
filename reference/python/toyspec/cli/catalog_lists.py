"""Lists runs of a catalog by settings and metrics, a column at a time: only the values that are asked for are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.catalog.asked_values import asked_values, is_larger_better
from toyspec.catalog.run_table import ordering
from toyspec.runs.columns import meeting, places_in_order
from toyspec.runs.expressions import UNKNOWN

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from toyspec.catalog.reading import Catalog
    from toyspec.catalog.run_columns import RunColumns


class AskedList(NamedTuple):
    """The runs to list."""

    runs: RunColumns
    """The first of them, as many as are shown."""
    number: int
    """The number of runs that meet the conditions."""


def asked_list(catalog: Catalog, options: Namespace, columns: Sequence[str], order: str | None) -> AskedList | None:
    """Return the runs that meet the filters of *options*, with *columns*, by one of these or by the *order* of SQL.

    None where it would not be faster than to make each run. Raises CatalogError.
    """
    if any(each.has_words for each in options.where):
        return None
    names = dict.fromkeys([*columns, *(name for each in options.where for name in each.fields), "final_loss", "reason"])
    asked = asked_values(catalog, list(names), order or ordering("name", reverse=False))
    if asked is None:
        return None
    kept = meeting(asked.values, options.where) if options.where else list(range(len(asked.streams)))
    if order is None:
        is_larger = is_larger_better(
            catalog, options.sort, [asked.streams[at] for at in kept] if options.where else None
        )
        values = _of(asked.values[options.sort], kept)
        places = places_in_order(values, is_larger_better=is_larger, reverse=options.reverse)
        kept = list(map(kept.__getitem__, places))
    number = len(kept)
    kept = kept[: options.number]
    found = catalog.columns_of([asked.streams[at] for at in kept])
    more = {name: _of(asked.values[name], kept) for name in columns}
    losses, reasons = (_of(asked.values[name], kept) for name in ("final_loss", "reason"))
    return AskedList(found._replace(final_loss=losses, reason=reasons, more=more), number)


def _of(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Return the values at *places*; None where a run has none."""
    return [None if value is UNKNOWN else value for value in map(values.__getitem__, places)]
