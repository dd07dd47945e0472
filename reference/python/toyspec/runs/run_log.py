"""Gives the settings, steps, loss and end of a toy/v1 run."""

from __future__ import annotations

import os
import warnings
from array import array
from contextlib import closing
from functools import cached_property, partial
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Literal

from toyspec.engine import native
from toyspec.errors import RunStartMissingError, StreamError, StreamMissingError, StreamReplacedError, check_choice
from toyspec.format.numbers import finite_number, is_number_or_null
from toyspec.format.profiles import EVENTS_FILE, stream_name
from toyspec.places.addresses import is_address, path_in, public
from toyspec.read_reports import Gap
from toyspec.reading.attempts import Attempts
from toyspec.reading.number_blocks import LossFeed, NumberBlock
from toyspec.reading.reader import Reading
from toyspec.reading.records import RecordFeed
from toyspec.reading.stream_files import Source, open_source
from toyspec.reading.stream_names import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.read_reports import ReadReport
    from toyspec.reading.reader import AttemptView
    from toyspec.reading.records import Record
    from toyspec.runs.history import History

# As much as is read of many numbers at once.
_CHUNK_BYTES = 1 << 20
# The losses of so many steps are kept when a run is opened: 16 MiB.
_MOST_KEPT = 1 << 20


class _Losses:
    """The losses of steps, NaN where one was not finite; with more steps than *most*, the last one alone."""

    def __init__(self, most: int | None = None) -> None:
        self.steps: array[int] | list[int] = array("q")
        self.values = array("d")
        self.last: float | None = None
        self.is_whole = True
        self._most = most

    def add(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Add the losses of *steps*."""
        if not values:
            return
        self.last = None if isnan(values[-1]) else values[-1]
        if self._most is not None and len(self.steps) + len(steps) > self._most:
            self.drop()
        if self.is_whole:
            try:
                self.steps.extend(steps)
            except OverflowError:
                # Any integer may be a step.
                self.steps = [*self.steps, *steps]
            self.values.extend(values)

    def drop(self) -> None:
        """Keep nothing but the last loss from now on."""
        self.steps, self.values, self.is_whole = array("q"), array("d"), False

    def curve(self) -> list[float | None]:
        """Return the losses, None where one was not finite."""
        if isnan(sum(self.values)):
            return [None if isnan(value) else value for value in self.values]
        return list(self.values)


class RunLog:
    """One run, with the records its stream had when it was opened; steps are those of the latest attempt.

    ``open`` keeps the losses of a run of up to a million steps, at most 16 MiB; ``scan`` keeps none. Apart from them,
    memory does not grow with the run until ``steps``, ``loss_curve`` or ``loss_by_step`` is used.
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
        self._kept = _Losses(_MOST_KEPT)
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
        check_choice("on_error", on_error, ("skip", "raise"))
        runs = []
        for path in _run_directories(os.fspath(root)):
            try:
                run = cls(path)
                # Those of many runs would take much memory.
                run._kept.drop()
                runs.append(run)
            except StreamError as error:
                if isinstance(error, RunStartMissingError) and (error.report is None or not error.report.records):
                    continue
                if on_error == "raise":
                    raise
                warnings.warn(f"run left out: {error}", stacklevel=2)
        runs.sort(key=lambda run: (run.final_loss is None, run.final_loss or 0.0, os.path.basename(run.dir)))
        return runs

    def __repr__(self) -> str:
        return f"<RunLog {self.dir!r} run_id={self.run_id!r} state={self.report.state!r}>"

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
        if self.run_end is not None and is_number_or_null(self.run_end.get("final_loss", "")):
            return finite_number(self.run_end["final_loss"])
        return self._kept.last

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

        The run's own phase is that of its run_start, else train. Read from the file on first use, if they were not
        kept; raises as ``steps`` does.
        """
        return self._losses.curve()

    @cached_property
    def loss_by_step(self) -> list[tuple[int, float | None]]:
        """Number and loss of the same steps."""
        return list(zip(self._losses.steps, self._losses.curve(), strict=True))

    @cached_property
    def _losses(self) -> _Losses:
        if self._kept.is_whole:
            self._raise_if_replaced()
            return self._kept
        return self._latest_losses(_Losses())

    def history(
        self, metrics: Sequence[str] | str | None = None, x: str = "step", *, attempts: AttemptView = "latest"
    ) -> History:
        """Return every value that the run has logged by now, read from its stream: see ``toyspec.history``."""
        from toyspec.runs.history import history

        return history(self._stream, metrics, x, attempts=attempts)

    def _repr_html_(self) -> str:
        from toyspec.runs.run_html import run_html
        from toyspec.runs.summarizing import summarize_run

        return run_html(summarize_run(self._stream))

    def _learn(self) -> None:
        config: Record | None = None
        is_late = False
        reading = self._read()
        items: Iterator[Any] = iter(reading)
        for item in items:
            if not isinstance(item, NumberBlock):
                self._attempts.learn(item)
                if item.kind == "run_start" and config is None:
                    config = self.config = item
                elif item.end is not None or item.goes_on:
                    self.run_end = None if item.goes_on else item
            if config is None:
                is_late = True
            else:
                self._kept.add(*self._losses_in(item))
        self.report = reading.report
        if config is None:
            raise RunStartMissingError(self._stream, "no run_start", report=self.report)
        if self._attempts:
            self._kept = self._latest_losses(_Losses(_MOST_KEPT))
        elif is_late:
            # What comes before it is of the run too.
            self._kept.drop()

    def _read(self) -> Reading:
        return Reading(self._source(), mode="tail", attempts="all", feed=_loss_feed())

    def _source(self) -> Source:
        # The directory was named, not this file: a FIFO in its place must not block.
        return open_source(self._stream)

    def _loss_in(self, record: Record) -> tuple[Sequence[int], Sequence[float]]:
        """Return number and loss of *record*, if it is a step of the run's own phase with a valid loss."""
        if not self._attempts.is_own_step(record) or not is_number_or_null(record.get("loss", "")):
            return (), ()
        loss = finite_number(record["loss"])
        return [record["step"]], [nan if loss is None else loss]

    def _latest_losses(self, losses: _Losses) -> _Losses:
        """Add the losses of the latest attempt to *losses*, from the file; return them."""
        for item in self._items(_loss_feed()):
            if isinstance(item, NumberBlock) or not self._attempts.is_abandoned(item):
                losses.add(*self._losses_in(item))
        return losses

    def _losses_in(self, block: Record | NumberBlock) -> tuple[Sequence[int], Sequence[float]]:
        """Return number and loss of own steps, NaN for null; those of a block are of the latest attempt."""
        if not isinstance(block, NumberBlock):
            return self._loss_in(block)
        own = self._attempts.own_phase
        if "loss" not in block.columns or (block.phase or own) != own:
            return (), ()
        steps, values = block.columns["loss"]
        kept = self._attempts.last_step_kept(block.line)
        if kept is None or own != "train" or max(steps) <= kept:
            return steps, values
        chosen = [at for at, step in enumerate(steps) if step <= kept]
        return [steps[at] for at in chosen], [values[at] for at in chosen]

    def _raise_if_replaced(self) -> None:
        """Raise if the stream at the path has become another or a shorter one."""
        wanted = self.config.offset + len(self.config.raw)
        head = b""
        with closing(self._source()) as source:
            while len(head) < wanted and (chunk := self._chunk(source, wanted - len(head))):
                head += chunk
            size = source.measure()
        is_shorter = size is not None and size < self.report.committed_bytes
        if is_shorter or head[self.config.offset :] != self.config.raw:
            raise self._replaced()

    def _replaced(self) -> StreamReplacedError:
        return StreamReplacedError(self._stream, "the stream was replaced since the run was opened; open the run again")

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
            raise self._replaced()

    def _chunk(self, source: Source, most: int) -> bytes:
        try:
            return source.read(min(most, _CHUNK_BYTES))
        except OSError as error:
            raise unreadable(self._stream, error) from error


def _loss_feed() -> partial[RecordFeed]:
    return partial(RecordFeed if native() is None else LossFeed, profile="toy/v1")


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
