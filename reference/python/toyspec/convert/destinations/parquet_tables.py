"""Parquet tables: one file of runs and one of their values."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from toyspec.convert.destinations.destination import MAX_INT64, Destination, Lost, binary64_of, file_left, in_binary64
from toyspec.convert.reports import Cause
from toyspec.convert.sources import needed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item

RUNS, VALUES = "runs.parquet", "values.parquet"
BEYOND_INT64 = Cause("beyond-int64", "changed", "the step is larger than int64 holds and is left out")

_TEXTS = ("run_id", "name", "group", "notes", "started_at", "config", "reason", "error", "ended_at")
_BATCH = 1 << 16


class ParquetTables(Destination):
    """``runs.parquet`` and ``values.parquet``, with the runs in their order."""

    carried: ClassVar = {"setting": None, "fact": None, "end": None}

    def __init__(self, into: str | None = None) -> None:
        """Write into the directory *into*; raise ImportError without pyarrow."""
        super().__init__(into)
        self._pq = needed("pyarrow.parquet", "parquet", "Parquet")
        self._pa = pa = needed("pyarrow", "parquet", "Parquet")
        texts = [(name, pa.string()) for name in (*_TEXTS, "run_start", "run_end")]
        values = [("run_id", pa.string()), ("kind", pa.string()), ("t", pa.float64()), ("step", pa.int64())]
        values += [("name", pa.string()), ("value", pa.float64()), ("record", pa.string())]
        columns = {RUNS: [*texts, ("tags", pa.list_(pa.string()))], VALUES: values}
        self._schemas = {name: pa.schema(found) for name, found in columns.items()}
        self._writers = {
            name: self._pq.ParquetWriter(os.path.join(str(into), name), schema)
            for name, schema in self._schemas.items()
        }
        self._rows: list[dict[str, Any]] = []

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Begin the rows of the run."""
        del place
        self.run = run
        return None

    def carry(self, item: Item) -> Iterable[Lost]:
        """Add the row of a value or of a record."""
        step = item.step
        if step is not None and step > MAX_INT64:
            yield Lost(BEYOND_INT64, item, step, "null")
            step = None
        record = None if item.kind == "measure" else item.record
        if item.kind == "text":
            # The numbers of its record have rows of their own.
            at = {} if step is None else {"step": step}
            record = {"kind": "scalars", "t": item.t, **at, "values": {}, "texts": {item.name: item.value}}
        self._rows.append(
            {
                "run_id": self.run.run_id, "kind": item.record.get("kind"), "t": item.t, "step": step,
                "name": item.name, "record": None if record is None else _json(record),
                "value": binary64_of(item) if item.kind == "measure" and item.value is not None else None,
            }
        )  # fmt: skip
        if len(self._rows) == _BATCH:
            self._write_values()
        if item.kind == "measure":
            yield from in_binary64(item)
        yield from file_left(item)

    def close(self, end: Ending | None) -> None:
        """Write the rest, and the row of the run."""
        self._write_values()
        start, last = self.run.start, {} if end is None else end.record
        known = {**start, **{key: last.get(key) for key in ("reason", "error", "ended_at")}}
        tags = start.get("tags")
        row = {
            **{key: known.get(key) if isinstance(known.get(key), str) else None for key in _TEXTS},
            "run_id": self.run.run_id,
            "config": _json(start["config"]) if "config" in start else None,
            "tags": [str(tag) for tag in tags] if isinstance(tags, list) else None,
            "run_start": _json(start) if start else None,
            "run_end": _json(last) if last else None,
        }
        self._write(RUNS, [row])

    def _write_values(self) -> None:
        # A row group has rows of one run, so that a reader of one run can skip the others.
        rows, self._rows = self._rows, []
        self._write(VALUES, rows)

    def _write(self, name: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._writers[name].write_table(self._pa.Table.from_pylist(rows, schema=self._schemas[name]))

    def complete(self, target: str) -> None:
        """End the tables."""
        del target
        for writer in self._writers.values():
            writer.close()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
