"""A plain JSON array of the records of a run, for programs that read JSON and not JSON Lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from toyspec.convert.destinations.destination import Destination, Lost
from toyspec.convert.reports import NO_PLACE, PART_DROPPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item, ItemRow


class JsonArray(Destination):
    """``RUN.json``: every record of the stream, one on each line."""

    holds_attempts = True

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Begin the file."""
        del place
        self._file: BinaryIO = open(os.path.join(str(self.into), f"{run.run_id}.json"), "xb")  # noqa: SIM115
        self._separator = b"[\n"
        return None

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Write the records unchanged."""
        for row in rows:
            self._file.write(self._separator + row.record.raw)
            self._separator = b",\n"
        return [lost for row in rows for item in row.items for lost in _left(item, row)]

    def close(self, end: Ending | None) -> None:
        """End the array."""
        del end
        if not self._file.closed:
            self._file.write(b"[]\n" if self._separator == b"[\n" else b"\n]\n")
            self._file.close()


def _left(item: Item, row: ItemRow) -> Iterable[Lost]:
    """Yield what the record does not have: what annotations say in place of it, and its file."""
    if item.kind == "fact" and row.record.value.get(item.name) != item.value:
        yield Lost(NO_PLACE, item)
    yield from file_left(item)


def file_left(item: Item) -> Iterable[Lost]:
    """Yield that the file of a record stays in the bundle, for a tool that keeps records only."""
    if item.kind == "media" or (item.kind == "record" and item.name == "artifact"):
        yield Lost(PART_DROPPED, item, "its file")
