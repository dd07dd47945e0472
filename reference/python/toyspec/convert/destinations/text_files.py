"""Runs as text: CSV tables, folders of DVCLive, and logs of MLPerf."""

from __future__ import annotations

import csv
import json
import math
import os
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO

import msgspec

from toyspec.convert.destinations.destination import (
    Destination,
    Lost,
    folder_of,
    in_milliseconds,
    null_as_nan,
    number_of,
    without_step,
)
from toyspec.convert.dvclive_files import LATEST, PARAMS, TABLES
from toyspec.convert.reports import NO_PLACE, Cause
from toyspec.convert.yaml_text import written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item

TIME_OF_ROW = Cause("time-of-row", "changed", "the value has the time of the first value at its step")

# A later value at a step whose row was written begins a new row of that step.
_OPEN_ROWS = 4096
_OWN = ("step", "elapsed_s")
# Without a column `step`, it is not read as the log of one more run.
_TEXTS: list[object] = ["at_step", "elapsed_s", "name", "text"]
_TABLE_ROWS = 1000


class _Row(NamedTuple):
    """A row that may get more cells."""

    key: object
    t: float
    cells: list[object]


class CsvTables(Destination):
    """``metrics.csv`` in a folder for each run, and ``texts.csv`` where texts were logged."""

    needs_metrics = True

    def __init__(self, into: str | None = None) -> None:
        """Write below the directory *into*."""
        super().__init__(into)
        self._folder = ""
        self._files: dict[str, TextIO] = {}
        self._columns: dict[str, int] = {}
        self._rows: deque[_Row] = deque()
        self._latest: dict[object, _Row] = {}

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Write the header, with a column for each metric of the run."""
        del place
        self._folder = folder_of(str(self.into), run)
        names = [name for name in run.metrics if name not in _OWN]
        self._columns = {name: at for at, name in enumerate(names, len(_OWN))}
        self._write("metrics.csv", [*_OWN, *names])
        return None

    def carry(self, item: Item) -> Iterable[Lost]:
        """Put a number into the row of its step; write a text."""
        if item.kind == "text":
            if "texts.csv" not in self._files:
                self._write("texts.csv", _TEXTS)
            self._write("texts.csv", [item.step, repr(item.t), item.name, item.value])
            return ()
        return self.measure(item) if item.kind == "measure" and item.name in self._columns else [Lost(NO_PLACE, item)]

    def measure(self, item: Item) -> Iterator[Lost]:
        """Put a number into the row of its step."""
        at = self._columns[item.name]
        key = item.place.partition(":")[0] if item.step is None else item.step
        row = self._latest.get(key)
        if row is None or row.cells[at] is not None:
            row = self._latest[key] = _Row(key, item.t, [item.step, repr(item.t), *[None] * len(self._columns)])
            self._rows.append(row)
            if len(self._rows) > _OPEN_ROWS:
                self._write_first()
        elif row.t != item.t:
            yield Lost(TIME_OF_ROW, item, item.t, row.t)
        row.cells[at] = "nan" if item.value is None else repr(item.value)
        yield from null_as_nan(item)

    def close(self, end: Ending | None) -> None:
        """Write the rest."""
        del end
        while self._rows:
            self._write_first()
        for file in self._files.values():
            file.close()
        self._files, self._latest = {}, {}

    def _write_first(self) -> None:
        row = self._rows.popleft()
        if self._latest[row.key] is row:
            del self._latest[row.key]
        self._write("metrics.csv", row.cells)

    def _write(self, name: str, cells: list[object]) -> None:
        if name not in self._files:
            self._files[name] = open(os.path.join(self._folder, name), "w", encoding="utf-8", newline="")  # noqa: SIM115
        csv.writer(self._files[name], lineterminator="\n").writerow(cells)


class DvcliveFolder(Destination):
    """A folder for each run."""

    carried: ClassVar = {"setting": None}

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Write the parameters."""
        del place
        self.run = run
        self._folder = folder_of(str(self.into), run)
        os.makedirs(os.path.join(self._folder, TABLES))
        self._latest: dict[str, Any] = {}
        self._step = 0
        # Keeping a file open for each metric could exceed what a process may have open.
        self._waiting: dict[str, list[str]] = {}
        if run.config:
            with open(os.path.join(self._folder, PARAMS), "w", encoding="utf-8") as params:
                params.write(written(run.config))
        return None

    def carry(self, item: Item) -> Iterable[Lost]:
        """Take a number whose name can be that of a table."""
        is_named = item.kind != "measure" or self._path(item.name) is not None
        return super().carry(item) if is_named else [Lost(NO_PLACE, item)]

    def _path(self, name: str) -> str | None:
        """Return the path of the table of *name*; None for a name that is not a path below the directory."""
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\0" in part or "\\" in part or len(part.encode()) > 250 for part in parts):
            return None
        return os.path.join(self._folder, TABLES, *parts) + ".tsv"

    def measure(self, item: Item) -> Iterator[Lost]:
        """Take a number."""
        text = "nan" if item.value is None else repr(item.value)
        rows = self._waiting.setdefault(item.name, [])
        rows.append(f"{self.run.wall_ms(item.t)}\t{item.step or 0}\t{text}\n")
        if len(rows) == _TABLE_ROWS:
            self._flush(item.name)
        self._latest[item.name] = item.value if item.value is not None and math.isfinite(item.value) else text
        self._step = max(self._step, item.step or 0)
        yield from without_step(item)
        yield from null_as_nan(item)
        yield from in_milliseconds(item, self.run)

    def close(self, end: Ending | None) -> None:
        """Write the rest, and the latest values."""
        del end
        for name in self._waiting:
            self._flush(name)
        document = msgspec.json.encode({**self._latest, "step": self._step})
        with open(os.path.join(self._folder, LATEST), "wb") as file:
            file.write(msgspec.json.format(document, indent=4))

    def _flush(self, name: str) -> None:
        path = self._path(name)
        assert path is not None, "only such names wait"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        is_new = not os.path.exists(path)
        with open(path, "a", encoding="utf-8", newline="") as file:
            file.write(f"timestamp\tstep\t{os.path.basename(name)}\n" if is_new else "")
            file.write("".join(self._waiting[name]))
        self._waiting[name] = []


class MllogFile(Destination):
    """``result_0.txt`` in a folder for each run."""

    carried: ClassVar = {"setting": None, "end": ("reason",)}

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Write the line that begins an attempt, with the settings in its metadata."""
        del place
        self.run = run
        self._file: TextIO = open(os.path.join(folder_of(str(self.into), run), "result_0.txt"), "w", encoding="utf-8")  # noqa: SIM115
        # Settings are not lines of their own: a line with a number is a point of a curve.
        settings = {"config": run.settings} if run.settings else {}
        self._line(0.0, "init_start", None, settings, "INTERVAL_START")
        return None

    def measure(self, item: Item) -> Iterator[Lost]:
        """Write a point."""
        self._line(item.t, item.name, number_of(item), {} if item.step is None else {"step_num": item.step})
        yield from null_as_nan(item)
        yield from in_milliseconds(item, self.run)

    def close(self, end: Ending | None) -> None:
        """Write the line of the end, if there is one."""
        if end is not None:
            status = "success" if end.reason == "completed" else "aborted"
            self._line(end.t, "run_stop", None, {"status": status}, "INTERVAL_END")
        self._file.close()

    def _line(self, t: float, key: str, value: Any, metadata: Any, event_type: str = "POINT_IN_TIME") -> None:
        record = {
            "namespace": "", "time_ms": self.run.wall_ms(t), "event_type": event_type, "key": key, "value": value,
            "metadata": metadata,
        }  # fmt: skip
        # MLPerf's own logger writes bare NaN, and its checker reads it.
        self._file.write(f":::MLLOG {json.dumps(record)}\n")
