"""Writes metrics as entries of a metrics/v1 log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.core.format.canonical import encode
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.appending import open_to_append
from toyspec.core.writing.clocks import Stopwatch
from toyspec.core.writing.dropped_records import DroppedRecords
from toyspec.tracker.sinks.sink import Numbering, Sink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.writing.append_file import AppendFile
    from toyspec.tracker.config import LogConfig

_LARGEST_STEP = 2**32 - 1
_THROUGHPUTS = ("throughput_samples_per_sec", "samples_per_sec", "samples_per_second")
_MILLISECONDS = 1000


class ThroughputLogSink(Sink):
    """A metrics/v1 log that steps are appended to; unlike ``MetricsLog`` it keeps no entry in memory.

    Where the log there is damaged or in use, or writing has failed, this is reported once and no more entries are
    written; a disk that is full drops entries until there is room.
    """

    __slots__ = ("_dropped", "_file", "_path", "_tracker", "_watch")

    def __init__(self, config: LogConfig, *, process: int) -> None:
        super().__init__(config.record_every)
        root, extension = os.path.splitext(os.fspath(config.metrics_log or ""))
        self._path = f"{root}-process{process}{extension}" if process else root + extension
        self._watch = Stopwatch(config.clock)
        self._tracker = config.tracker
        self._dropped = DroppedRecords(self._path)
        self._file: AppendFile | None = None
        try:
            os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
            self._file = open_to_append(self._path, "metrics/v1")
        except OSError as error:
            self._give_up(error)

    def log_step(self, step: int, metrics: Mapping[str, float], _numbering: Numbering, /) -> None:
        """Append an entry; what was not measured is null."""
        if self._file is None or step > _LARGEST_STEP:
            return
        extra = dict(metrics)
        throughput = [extra.pop(name) for name in _THROUGHPUTS if name in extra]
        if not throughput and self._tracker is not None:
            throughput = [self._tracker.samples_per_second]
        entry = {
            "step": step,
            "wall_time_ms": self._watch.seconds() * _MILLISECONDS,
            "loss": extra.pop("loss", None),
            "grad_norm": extra.pop("grad_norm", None),
            "throughput_samples_per_sec": throughput[0] if throughput else None,
            "extra": extra,
        }
        try:
            self._file.append(encode(entry, profile="metrics/v1"))
        except OSError as error:
            if self._file.closed_because is None:
                self._dropped.add(cause_of(error))
            else:
                self._give_up(error)
        else:
            if self._dropped.outage:
                self._dropped.end_outage()

    def finish(self, _error: BaseException | None, /) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._give_up(error)
        self._dropped.conclude()

    def _give_up(self, error: OSError) -> None:
        self._file = None
        say(f"{self._path}: {cause_of(error)}; no more entries are written; the program continues")
