"""Hands rows to a destination until it has them, and keeps on disk how far it is."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from toyspec.convert.destinations.destination import BATCH, ServiceRefusedError
from toyspec.core.system_calls import cause_of, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.convert.destinations.destination import Destination, Ending, Lost, RunHead
    from toyspec.convert.mirrors.state import StateFile
    from toyspec.convert.run_items import ItemRow


class Abandoned(Exception):  # noqa: N818 - ends a mirror, and is not an error of its caller
    """The service does not answer, and nothing more is waited for."""


class Rewound(Exception):  # noqa: N818 - likewise
    """The service has fewer rows than it has acknowledged."""


class Delivery:
    """The rows of one run on their way."""

    def __init__(
        self, run: RunHead, start: ItemRow, destination: Destination, state: StateFile, wait: Callable[[int], None]
    ) -> None:
        """Send the rows of *run*, which begins with the row *start*."""
        self.run = run
        self._start = start._replace(number=-1)
        self._destination = destination
        self._state = state
        self._wait = wait
        self._numbers = count()
        self._waiting: list[ItemRow] = []
        self._is_open = False
        self._in_doubt = 0

    def note_cut(self, line: int) -> None:
        """Keep that a window ended after *line* because nothing came."""
        self._state.progress.passes[-1].cuts.append(line)
        self._state.save()

    def offer(self, rows: Sequence[ItemRow]) -> None:
        """Take the next *rows*, and send them once they are many."""
        numbered = (row._replace(number=next(self._numbers)) for row in rows)
        self._waiting += [row for row in numbered if row.number >= self._state.progress.rows]
        if len(self._waiting) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Send all that waits, however long it takes; raise Abandoned, or Rewound."""
        while self._waiting:
            self._until_done(self._send)

    def finish(self, end: Ending) -> None:
        """Send what waits, and the end of the run; report what was not carried."""
        self.flush()
        progress = self._state.progress
        if progress.ended:
            return
        self._until_done(lambda: self._destination.close(end))
        progress.ended = True
        self._state.save()
        if progress.losses:
            causes = ", ".join(f"{cause} {number}" for cause, number in progress.losses.items())
            say(f"{progress.to}: run {self.run.run_id} is there with items changed or dropped ({causes})")

    def close(self) -> None:
        """Leave the destination and the state."""
        self._leave()
        self._state.close()

    def _send(self) -> None:
        batch = self._waiting[:BATCH]
        if not batch:
            # The service turned out to have them.
            return
        doubtful, self._in_doubt = self._in_doubt, BATCH
        missing = [*self._destination.missing(batch[:doubtful]), *batch[doubtful:]] if doubtful else batch
        lost = self._destination.put(missing)
        progress = self._state.progress
        progress.place = self._destination.place
        progress.rows = batch[-1].number + 1
        progress.ended = False
        self._count(lost)
        self._state.save()
        self._in_doubt = 0
        del self._waiting[: len(batch)]

    def _count(self, lost: Sequence[Lost]) -> None:
        for each in lost:
            losses = self._state.progress.losses
            losses[each.cause.name] = losses.get(each.cause.name, 0) + 1

    def _until_done(self, action: Callable[[], None]) -> None:
        failures = 0
        while True:
            try:
                if not self._is_open:
                    self._open()
                action()
            except (Abandoned, Rewound, ServiceRefusedError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever a service raises, it may pass
                if not failures:
                    what = f"{type(error).__name__}: {cause_of(error)}"
                    say(f"{self._state.progress.to} failed ({what}); the mirror of run {self.run.run_id} tries again")
                if self._is_open:
                    self._leave()
                self._wait(failures)
                failures += 1
            else:
                if failures:
                    say(f"{self._state.progress.to} answers again; the mirror of run {self.run.run_id} goes on")
                return

    def _open(self) -> None:
        progress = self._state.progress
        received = self._destination.open(self.run, progress.place)
        self._is_open = True
        lost = self._destination.put([self._start])
        if not progress.rows and not progress.losses:
            self._count(lost)
        # The last batch before may have arrived, in whole or in part.
        self._in_doubt = BATCH
        if received is None or received == progress.rows:
            return
        has_less = received < progress.rows
        if not received:
            progress.losses.clear()
        progress.rows = received
        self._state.save()
        if has_less:
            raise Rewound
        self._waiting = [row for row in self._waiting if row.number >= received]

    def _leave(self) -> None:
        self._is_open = False
        try:
            self._destination.close(None)
        except Exception as error:  # noqa: BLE001 - the run there is left unchanged
            say(f"{self._state.progress.to}: {type(error).__name__}: {cause_of(error)}")
