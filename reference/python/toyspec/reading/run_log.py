"""Answers the usual questions about a toy/v1 run: its settings, its steps, its loss and how it ended."""

from __future__ import annotations

import os
from functools import cached_property, partial
from typing import TYPE_CHECKING

from toyspec.errors import RunStartMissingError, StreamMissingError, StreamReplacedError
from toyspec.format.profiles import EVENTS_FILE
from toyspec.reading.attempts import Attempts
from toyspec.reading.reader import Mode, Reading
from toyspec.reading.records import RecordFeed
from toyspec.reading.stream_files import open_source, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.read_reports import ReadReport
    from toyspec.reading.records import Record


class RunLog:
    """One run, as its stream stood when it was opened; steps are those of the latest attempt.

    Memory does not grow with the run until ``steps`` or ``loss_curve`` is asked for.
    """

    path: str
    """The run directory as it was named."""
    config: Record
    """The run_start event: ``log.config["config"]["lr"]``, or typed, ``log.config.event``."""
    run_end: Record | None
    """The last run_end event; None when the run crashed or goes on."""
    report: ReadReport
    """The account of the reading; its state is torn for a run without run_end."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.run_end = None
        self._stream = os.path.join(path, EVENTS_FILE)
        self._attempts = Attempts()
        self._last_step: Record | None = None
        self._learn()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunLog:
        """Return the run in the directory *path*.

        Raises StreamMissingError without an events.jsonl, RunStartMissingError without a run_start,
        DamagedStreamError naming path and line at the first unreadable line, and StreamUnreadableError.
        A torn end is no error: it is in ``report``.
        """
        return cls(os.fspath(path))

    @classmethod
    def scan(cls, root: str | os.PathLike[str]) -> list[RunLog]:
        """Return the run in every subdirectory of *root* that has an events.jsonl, least final_loss first.

        Runs without a final_loss come last; equal ones are in the order of their names. A stream that has
        no record yet is left out. A directory that is linked to a second time is listed once. Raises
        StreamMissingError when *root* is no directory, and what ``open`` raises.
        """
        runs = []
        for path in _run_directories(os.fspath(root)):
            try:
                runs.append(cls(path))
            except RunStartMissingError as error:
                if error.report is None or error.report.records:
                    raise
        runs.sort(key=lambda run: (run.final_loss is None, run.final_loss or 0.0, os.path.basename(run.path)))
        return runs

    @property
    def run_id(self) -> str | None:
        """Name of the run by its run_start; None when that has none or no string."""
        run_id = self.config.get("run_id")
        return run_id if isinstance(run_id, str) else None

    @property
    def final_loss(self) -> float | None:
        """Loss at the end: that of run_end, else that of the last train step; None when there is none.

        A run_end that says null says that the loss was not finite, and no earlier loss stands in for it.
        """
        if self.run_end is not None and "final_loss" in self.run_end:
            return _number(self.run_end["final_loss"])
        return None if self._last_step is None else _number(self._last_step.get("loss"))

    @cached_property
    def steps(self) -> list[Record]:
        """The step events of every phase, in order; read from the file when first asked for.

        Raises StreamReplacedError or StreamMissingError when the stream that was opened is no longer there.
        """
        return [record for record in self._latest() if record.kind == "step"]

    @cached_property
    def loss_curve(self) -> list[tuple[int, float | None]]:
        """Step and loss of every train step that has both; a loss is None where it was not finite.

        Read from the file when first asked for; raises as ``steps`` does.
        """
        curve = []
        for record in self._latest():
            step, loss = record.get("step"), record.get("loss", "")
            if self._is_train_step(record) and type(step) is int and (loss is None or _number(loss) is not None):
                curve.append((step, _number(loss)))
        return curve

    def _learn(self) -> None:
        config: Record | None = None
        reading = self._read("tail")
        for record in reading:
            self._attempts.learn(record)
            if record.kind == "run_start" and config is None:
                config = self.config = record
            elif record.kind == "run_end":
                self.run_end = record
            elif self._is_train_step(record):
                self._last_step = record
        self.report = reading.report
        if config is None:
            raise RunStartMissingError(self._stream, "no run_start", report=self.report)
        if self._attempts:
            self._last_step = None
            for record in self._latest():
                if self._is_train_step(record):
                    self._last_step = record

    def _read(self, mode: Mode) -> Reading:
        # The directory was named, not this file: something special in its place is not waited for.
        source = open_source(self._stream, special="refuse")
        return Reading(source, mode=mode, attempts="all", feed=partial(RecordFeed, profile="toy/v1"))

    def _is_train_step(self, record: Record) -> bool:
        return record.kind == "step" and self._attempts.phase_of(record) == "train"

    def _latest(self) -> Iterator[Record]:
        return self._attempts.latest(self._records())

    def _records(self) -> Iterator[Record]:
        """Yield the records that were there when the run was opened."""
        matching = 0
        with self._read("prefix") as reading:
            for record in reading:
                changed = record.line == self.config.line and record != self.config
                if changed or record.offset >= self.report.committed_bytes:
                    break
                matching += 1
                yield record
        if matching != self.report.records:
            raise StreamReplacedError(self._stream, "the stream is not the one that was opened")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _run_directories(root: str) -> Iterator[str]:
    """Yield the subdirectories of *root* that have an events.jsonl, real ones before links."""
    try:
        with os.scandir(root) as entries:
            found = sorted(entries, key=lambda entry: (entry.is_symlink(), entry.name))
    except (FileNotFoundError, NotADirectoryError):
        raise StreamMissingError(root, "no such directory") from None
    except OSError as error:
        raise unreadable(root, error) from error
    seen = set()
    for entry in found:
        if not entry.is_dir() or not os.path.lexists(os.path.join(entry.path, EVENTS_FILE)):
            continue
        status = os.stat(entry.path)
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield entry.path
