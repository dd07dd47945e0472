"""Gives the settings, steps, loss and end of a toy/v1 run."""

from __future__ import annotations

import os
import warnings
from contextlib import closing
from functools import cached_property, partial
from math import isnan
from typing import TYPE_CHECKING, Any, Literal

from toyspec.engine import native
from toyspec.errors import RunStartMissingError, StreamError, StreamMissingError, StreamReplacedError
from toyspec.format.profiles import EVENTS_FILE, stream_name
from toyspec.places.addresses import is_address, path_in, public
from toyspec.read_reports import Gap
from toyspec.reading.attempts import Attempts
from toyspec.reading.number_blocks import LossFeed, NumberBlock
from toyspec.reading.reader import Reading
from toyspec.reading.records import RecordFeed
from toyspec.reading.stream_files import Source, open_source, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.read_reports import ReadReport
    from toyspec.reading.records import Record

# As much as is read of many numbers at once.
_CHUNK_BYTES = 1 << 20


class RunLog:
    """One run, with the records its stream had when it was opened; steps are those of the latest attempt.

    Memory does not grow with the run until ``steps``, ``loss_curve`` or ``loss_by_step`` is used.
    """

    dir: str
    """The run directory, as given."""
    config: Record
    """The run_start event: ``log.config["config"]["lr"]``, or typed, ``log.config.event``."""
    run_end: Record | None
    """The last run_end event; None if the run crashed or is running."""
    report: ReadReport
    """The report of the reading; its state is torn for a run without run_end."""

    def __init__(self, path: str) -> None:
        path = public(path)
        if is_address(path):
            is_stream = stream_name(os.path.basename(path)) == EVENTS_FILE
        else:
            is_stream = not os.path.isdir(path) and os.path.lexists(path)
        self.dir = os.path.dirname(path) if is_stream else path
        self.run_end = None
        self._stream = path if is_stream else path_in(path, EVENTS_FILE)
        self._attempts = Attempts()
        self._last_loss: float | None = None
        self._learn()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunLog:
        """Return the run in the directory *path*, or in the stream *path*.

        Raises StreamMissingError without an events.jsonl, RunStartMissingError without a run_start,
        DamagedStreamError naming path and line at the first unreadable line, and StreamUnreadableError.
        A torn end is not an error: see ``report``.
        """
        return cls(os.fspath(path))

    @classmethod
    def scan(cls, root: str | os.PathLike[str], *, on_error: Literal["skip", "raise"] = "skip") -> list[RunLog]:
        """Return the run in every subdirectory of *root* that has an events.jsonl, lowest final_loss first.

        Runs without a final_loss come last; equal ones are in the order of their names. A stream
        without a record is left out. A directory with several links is listed once. A run that ``open`` raises for is
        left out with a warning; with *on_error* ``"raise"``, the error is raised. Raises StreamMissingError if *root*
        is not a directory.
        """
        runs = []
        for path in _run_directories(os.fspath(root)):
            try:
                runs.append(cls(path))
            except StreamError as error:
                if isinstance(error, RunStartMissingError) and (error.report is None or not error.report.records):
                    continue
                if on_error == "raise":
                    raise
                warnings.warn(f"run left out: {error}", stacklevel=2)
        runs.sort(key=lambda run: (run.final_loss is None, run.final_loss or 0.0, os.path.basename(run.dir)))
        return runs

    @property
    def run_id(self) -> str | None:
        """Name of the run by its run_start; None if that has no string there."""
        run_id = self.config.get("run_id")
        return run_id if isinstance(run_id, str) else None

    @property
    def final_loss(self) -> float | None:
        """Loss at the end: that of run_end, else the last one of ``loss_curve``; None if there is none.

        null in run_end means that the loss was not finite; no earlier loss replaces it.
        """
        if self.run_end is not None and _is_loss(self.run_end.get("final_loss", "")):
            return _number(self.run_end["final_loss"])
        return self._last_loss

    @cached_property
    def steps(self) -> list[Record]:
        """The step events of every phase, in order; read from the file on first use.

        Raises StreamReplacedError or StreamMissingError if the stream that was opened is no longer there.
        """
        records = self._items(partial(RecordFeed, profile="toy/v1"))
        return [record for record in self._attempts.latest(records) if record.kind == "step"]

    @property
    def loss_curve(self) -> list[float | None]:
        """The loss of every step of the run's own phase that has one, in order; None where it was not finite.

        The run's own phase is that of its run_start, else train. Read from the file on first use; raises as ``steps``
        does.
        """
        return list(self._losses[1])

    @cached_property
    def loss_by_step(self) -> list[tuple[int, float | None]]:
        """Number and loss of the same steps."""
        return list(zip(*self._losses, strict=True))

    @cached_property
    def _losses(self) -> tuple[list[int], list[float | None]]:
        steps: list[int] = []
        losses: list[float | None] = []
        for some, values in self._loss_parts():
            steps.extend(some)
            losses.extend(values)
        return steps, losses

    def _repr_html_(self) -> str:
        from toyspec.runs.run_html import run_html
        from toyspec.runs.summarizing import summarize_run

        return run_html(summarize_run(self._stream))

    def _learn(self) -> None:
        config: Record | None = None
        reading = self._read()
        items: Iterator[Any] = iter(reading)
        for item in items:
            if isinstance(item, NumberBlock):
                if config is not None:
                    self._last_loss = next(reversed(self._losses_in(item)[1]), self._last_loss)
                continue
            self._attempts.learn(item)
            if item.kind == "run_start" and config is None:
                config = self.config = item
            elif item.kind == "run_end":
                self.run_end = item
            elif config is not None and self._has_loss(item):
                self._last_loss = _number(item["loss"])
        self.report = reading.report
        if config is None:
            raise RunStartMissingError(self._stream, "no run_start", report=self.report)
        if self._attempts:
            self._last_loss = None
            for _, losses in self._loss_parts():
                self._last_loss = next(reversed(losses), self._last_loss)

    def _read(self) -> Reading:
        return Reading(self._source(), mode="tail", attempts="all", feed=_loss_feed())

    def _source(self) -> Source:
        # The directory was named, not this file: a FIFO in its place must not block.
        return open_source(self._stream, special="refuse")

    def _has_loss(self, record: Record) -> bool:
        """Return whether *record* is a step of the run's own phase with a valid loss."""
        return self._attempts.is_own_step(record) and _is_loss(record.get("loss", ""))

    def _loss_parts(self) -> Iterator[tuple[Sequence[int], Sequence[float | None]]]:
        """Yield number and loss of the steps of the latest attempt that have one, many at a time."""
        for item in self._items(_loss_feed()):
            if isinstance(item, NumberBlock):
                yield self._losses_in(item)
            elif self._has_loss(item) and not self._attempts.is_abandoned(item):
                yield [item["step"]], [_number(item["loss"])]

    def _losses_in(self, block: NumberBlock) -> tuple[Sequence[int], Sequence[float | None]]:
        own = self._attempts.own_phase
        steps, values = block.columns.get("loss", ((), ()))
        if not steps or (block.phase or own) != own:
            return (), ()
        losses = [None if isnan(value) else value for value in values] if isnan(sum(values)) else values
        kept = self._attempts.last_step_kept(block.line)
        if kept is None or own != "train" or max(steps) <= kept:
            return steps, losses
        chosen = [at for at, step in enumerate(steps) if step <= kept]
        return [steps[at] for at in chosen], [losses[at] for at in chosen]

    def _items(self, feed: partial[RecordFeed]) -> Iterator[Any]:
        """Yield the records and blocks that the stream had when the run was opened; raise if it is another one."""
        made, left, is_same = feed(), self.report.committed_bytes, False
        with closing(self._source()) as source:
            while left and (chunk := self._chunk(source, left)):
                left -= len(chunk)
                for item in made.feed(chunk):
                    is_same = is_same or (item.line == self.config.line and item == self.config)
                    if not isinstance(item, Gap):
                        yield item
        if not is_same or made.gap_bytes or made.records != self.report.records:
            raise StreamReplacedError(
                self._stream, "the stream was replaced since the run was opened; open the run again"
            )

    def _chunk(self, source: Source, most: int) -> bytes:
        try:
            return source.read(min(most, _CHUNK_BYTES))
        except OSError as error:
            raise unreadable(self._stream, error) from error


def _loss_feed() -> partial[RecordFeed]:
    return partial(RecordFeed if native() is None else LossFeed, profile="toy/v1")


def _is_loss(value: object) -> bool:
    return value is None or _number(value) is not None


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
