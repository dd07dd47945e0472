"""How many incidents health rules find in the runs of a viewer: counted once a page asks, and again as runs grow."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import ToyspecError
from toyspec.health.checking import counted_incidents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.view.opened_files import Identity
    from toyspec.view.scanning import ScanWork

_LEAST_PAUSE_SECONDS = 5.0
# A run that grows all the time is read whole for each count: it takes a twentieth of one core at most.
_PAUSES = 20


class AlertCount(NamedTuple):
    """What was counted in one run."""

    path: str
    identity: Identity
    """That of the stream when it was handed in."""
    counts: dict[str, int] | None
    """None for a run that cannot be read."""
    seconds: float
    """How long it took."""


def count_alerts(work: ScanWork, dialect: DialectChoice) -> AlertCount:
    """Return the number of incidents in the run of a stream, and of those that have not ended."""
    begin = time.monotonic()
    try:
        counts = counted_incidents(work.path, dialect)
    except (ToyspecError, ValueError):
        # A wrong rule: the page of a run reports it.
        counts = None
    return AlertCount(work.path, work.identity, counts, time.monotonic() - begin)


class CountedAlerts:
    """The counts of the runs of a viewer. Its user holds *lock* while it calls a method."""

    def __init__(
        self,
        lock: threading.RLock,
        count: Callable[[Sequence[ScanWork], Callable[[AlertCount], None]], None],
        take: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        """*count* begins to count and gives each result on; *take* gets the path of a run that has a new one."""
        self._lock = lock
        self._count = count
        self._take = take
        self._clock = clock
        self._known: dict[str, AlertCount] = {}
        self._counted_at: dict[str, float] = {}
        self._pending: set[str] = set()
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def of(self, path: str) -> dict[str, Any]:
        """Return the counts of the run with the stream at *path* as members of its row; none before they are known."""
        known = self._known.get(path)
        return {} if known is None or known.counts is None else known.counts

    def want(self, works: Callable[[], Sequence[ScanWork]]) -> None:
        """Count those of the runs *works* that have changed; those that were counted just now, after a pause."""
        if self._is_closed:
            return
        now = self._clock()
        due, later = [], []
        for work in works():
            known = self._known.get(work.path)
            if work.path in self._pending or (known is not None and known.identity == work.identity):
                continue
            rest = 0.0
            if known is not None:
                pause = max(_LEAST_PAUSE_SECONDS, _PAUSES * known.seconds)
                rest = self._counted_at[work.path] + pause - now
            (due.append(work) if rest <= 0 else later.append(rest))
        self._pending.update(work.path for work in due)
        if due:
            self._count(due, self._end)
        if later and self._timer is None:
            self._timer = threading.Timer(min(later), self._again, (works,))
            self._timer.daemon = True
            self._timer.start()

    def _again(self, works: Callable[[], Sequence[ScanWork]]) -> None:
        with self._lock:
            self._timer = None
            self.want(works)

    def _end(self, result: AlertCount) -> None:
        with self._lock:
            self._pending.discard(result.path)
            self._known[result.path] = result
            self._counted_at[result.path] = self._clock()
            self._take(result.path)

    def forget(self, path: str) -> None:
        """Drop what is known of a run that is gone."""
        self._known.pop(path, None)
        self._counted_at.pop(path, None)

    def close(self) -> None:
        """Count nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
