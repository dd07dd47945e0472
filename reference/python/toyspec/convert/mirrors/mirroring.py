"""Follows one run and sends its rows, each once: acknowledged ones are counted on disk, doubtful ones asked for."""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from toyspec.convert.destinations.destination import Ending, RunHead
from toyspec.convert.mirrors.delivery import Abandoned, Delivery, Rewound
from toyspec.convert.mirrors.selection import Selection, item_id
from toyspec.convert.mirrors.settings import Selecting
from toyspec.convert.mirrors.state import MirrorProgress, Pass, StateFile, identity_of, state_path
from toyspec.convert.run_items import ItemRow, start_items
from toyspec.core.errors import ToyspecError
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.follower import TailEvent, follow
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.system_calls import say

if TYPE_CHECKING:
    from toyspec.convert.destinations.destination import Destination
    from toyspec.convert.mirrors.settings import Mirror
    from toyspec.core.reading.records import Record

Outcome = Literal["ended", "sent", "replaced", "abandoned"]
"""What became of a run: its end was sent, all that is there was sent, another run took its place, or the service did
not answer for as long as the patience lasted."""

_IDLE_SECONDS = 60.0
_REPLACED = frozenset(["rotated", "truncated", "replaced"])


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """When a mirror looks for records, and when it tries again; all in seconds."""

    poll: float = 1.0
    first_retry: float = 1.0
    longest_retry: float = 300.0
    clock: Callable[[], float] = time.monotonic


def mirror_run(
    path: str | os.PathLike[str],
    mirror: Mirror,
    *,
    until: Literal["end", "now"] = "now",
    over: threading.Event | None = None,
    timing: Timing | None = None,
) -> Outcome:
    """Send what is missing of the run at *path*, a run directory or a stream, and return what became of it.

    With *until* ``"end"``, follow the run until it has ended; once *over* is set nothing more is waited for. Raise
    ImportError where the package of the service is not installed, MirrorBusyError where another process sends this run
    there, ToyspecError for what is not a toy/v1 run.
    """
    over = over or threading.Event()
    if until == "now":
        over.set()
    deadline: float | None = None
    while True:
        mirroring = _Mirroring(os.fspath(path), mirror, over, timing or Timing(), deadline)
        try:
            return mirroring.run()
        except Rewound:
            # The service has lost rows that it had acknowledged: they are made again from the start.
            deadline = mirroring.deadline
        except Abandoned:
            return "abandoned"


class _Mirroring:
    """One reading of a run from its start."""

    def __init__(
        self, path: str, mirror: Mirror, over: threading.Event, timing: Timing, deadline: float | None
    ) -> None:
        self._path = path
        self._mirror = mirror
        self._over = over
        self._timing = timing
        self._attempts = Attempts()
        self._destination: Destination = mirror.destination()
        self._delivery: Delivery | None = None
        self._selection: Selection | None = None
        self._end: Ending | None = None
        """The end of the run, until it goes on."""
        self._line = 0
        self._last_record = timing.clock()
        self._is_caught_up = False
        self._is_mute = False
        self._is_deadline_fixed = deadline is not None
        self.deadline = deadline
        """When the patience ends; that of a reading before, if the service lost rows after it had failed."""

    def run(self) -> Outcome:
        outcome: Outcome = "sent"
        try:
            with follow(
                self._path, poll_seconds=self._timing.poll, stop=lambda: self._is_caught_up, sleep=self._between_polls
            ) as follower:
                for item in follower:
                    if not isinstance(item, TailEvent):
                        self._take(item)
                    elif item.kind in _REPLACED:
                        outcome = "replaced"
                        break
            if self._delivery is not None:
                self._delivery.flush()
                if self._end is not None and outcome != "replaced":
                    outcome = "ended"
                    if not self._is_mute:
                        self._delivery.finish(self._end)
        finally:
            if self._delivery is not None:
                self._delivery.close()
        return outcome

    def _take(self, record: Record) -> None:
        self._attempts.learn(record)
        is_first = self._selection is None
        if is_first:
            self._begin(record)
        self._line, self._last_record = record.line, self._timing.clock()
        assert self._selection is not None
        assert self._delivery is not None
        if record.end is not None:
            self._end = Ending(str(record.get("reason") or "completed"), float(record.time or 0.0), record.end)
        elif record.goes_on:
            self._end = None
        if self._is_mute or (is_first and record.kind == "run_start"):
            return
        was_spent = self._selection.is_spent
        self._delivery.offer(self._selection.take(record, self._attempts))
        if self._selection.is_spent and not was_spent:
            run_id = self._delivery.run.run_id
            say(f"{self._mirror.to}: the budget of run {run_id} is used up; only its last values are still sent")
        if record.kind == "run_end":
            self._delivery.offer(self._selection.finish())

    def _begin(self, record: Record) -> None:
        """Open the state of the run that begins with *record*, and offer what the service lacks of earlier passes."""
        if record.profile != "toy/v1":
            raise ToyspecError(
                f"{self._path}: not a toy/v1 run; only these are mirrored. `toyspec import` makes a toy/v1 run of it"
            )
        stream = locate_stream(self._path)
        identity = identity_of(record.raw)
        value = record.value if record.kind == "run_start" else {}
        run = RunHead.of(stream, value, project=self._mirror.project, identity=identity)
        progress = MirrorProgress(run=run.run_id, to=self._mirror.to, into=self._mirror.into)
        state = StateFile(state_path(stream, self._mirror, identity), progress)
        if self._destination.is_in_memory:
            state.progress = progress
        passes = _passes(state.progress, self._mirror.select)
        start = ItemRow(record, tuple(start_items(record, value)))
        self._delivery = Delivery(run, start, self._destination, state, self._wait)
        sent: array[int] = array("Q")
        for earlier in passes[:-1]:
            sent = array("Q", sorted([*sent, *self._replay(stream, earlier, sent)]))
        self._selection = Selection(passes[-1].select, passes[-1].cuts, sent or None)
        if not self._selection.start(run.config):
            say(f"{self._mirror.to}: the settings of run {run.run_id} alone exceed the budget; nothing is sent")
            self._is_mute = True

    def _replay(self, stream: str, earlier: Pass, sent: array[int]) -> array[int]:
        """Offer the rows of an *earlier* pass, of which the service may lack some; return the ids of its items."""
        found: array[int] = array("Q")
        selection, attempts = Selection(earlier.select, earlier.cuts, sent or None), Attempts()
        left = earlier.rows or 0
        with read(stream, mode="salvage") as reading:
            for record in reading:
                attempts.learn(record)
                if record.line == 1:
                    selection.start(record.get("config"))
                    if record.kind == "run_start":
                        continue
                rows = selection.take(record, attempts)
                rows = (rows if record.end is None else rows + selection.finish())[:left]
                left -= len(rows)
                assert self._delivery is not None
                self._delivery.offer(rows)
                found.extend(item_id(row.line, index) for row in rows for index in row.indexes)
                if not left:
                    break
        return found

    def _between_polls(self, seconds: float) -> None:
        """Send what waits; called when all that is in the stream was read."""
        is_over = self._over.is_set()
        if self._delivery is not None and self._selection is not None:
            if self._selection.is_open and (is_over or self._timing.clock() - self._last_record >= _IDLE_SECONDS):
                self._delivery.note_cut(self._line)
                self._delivery.offer(self._selection.cut())
            self._delivery.flush()
        if is_over:
            self._is_caught_up = True
        else:
            self._over.wait(seconds)

    def _wait(self, failures: int) -> None:
        """Wait before the next attempt; raise Abandoned where the run is over and the patience too."""
        seconds = min(self._timing.first_retry * 2 ** min(failures, 20), self._timing.longest_retry)
        if not self._over.wait(seconds):
            return
        now = self._timing.clock()
        if self.deadline is None or not (failures or self._is_deadline_fixed):
            self.deadline = now + self._mirror.patience
        if now >= self.deadline:
            raise Abandoned
        time.sleep(min(seconds, self.deadline - now))


def _passes(progress: MirrorProgress, wanted: Selecting | None) -> list[Pass]:
    """Return the passes of *progress*; another choice of points than the last one begins a pass of its own."""
    passes = progress.passes
    if not passes:
        passes.append(Pass(select=wanted or Selecting()))
    elif wanted is not None and wanted != passes[-1].select:
        passes[-1].rows = progress.rows - sum(earlier.rows or 0 for earlier in passes[:-1])
        passes.append(Pass(select=wanted))
        progress.ended = False
    return passes
