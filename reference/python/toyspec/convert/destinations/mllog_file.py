"""Logs of MLPerf; the dialect ``mllog`` reads them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TextIO

from toyspec.convert.destinations.destination import (
    Destination,
    Lost,
    folder_of,
    in_milliseconds,
    null_as_nan,
    number_of,
)
from toyspec.convert.reports import NO_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item


class MllogFile(Destination):
    """``result_0.txt`` in a folder for each run."""

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Write the line that begins an attempt, with the settings in its metadata."""
        del place
        self.run = run
        self._file: TextIO = open(os.path.join(folder_of(str(self.into), run), "result_0.txt"), "w", encoding="utf-8")  # noqa: SIM115
        # Settings are not lines of their own: a line with a number is a point of a curve.
        settings = {"config": run.settings} if run.settings else {}
        self._line(0.0, "init_start", None, settings, "INTERVAL_START")
        return None

    def carry(self, item: Item) -> Iterable[Lost]:
        """Write a number; settings are written already, and a reason with the end."""
        if item.kind == "measure":
            return self._measure(item)
        is_carried = item.kind == "setting" or (item.kind == "end" and item.name == "reason")
        return () if is_carried else [Lost(NO_PLACE, item)]

    def _measure(self, item: Item) -> Iterator[Lost]:
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
