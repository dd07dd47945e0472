"""Turns wall-clock times of another tool into ``t``, which never decreases."""

from __future__ import annotations

import math
from itertools import islice
from operator import le
from typing import TYPE_CHECKING, Any

from toyspec.convert.losses import TIME_JUMPS, TIME_UNUSABLE, is_number
from toyspec.core.writing.clocks import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toyspec.convert.losses import Ledger

LAST_WALL = 253_402_300_800.0
"""The first second of the year 10000, which RFC 3339 cannot write."""


def is_wall(seconds: Any) -> bool:
    """Return whether *seconds* since the Unix epoch can be written as a date."""
    return is_number(seconds) and 0.0 <= seconds < LAST_WALL


def earliest(walls: Iterable[Any]) -> float | None:
    """Return the earliest of *walls* that is a time; None without one. A program that knows no time writes 0."""
    return min((wall for wall in walls if is_wall(wall)), key=lambda wall: (not wall, wall), default=None)


# Threads that write at once are this far apart; more is another clock.
_JUMP_SECONDS = 1.0
# A year: no run waits so long, but a clock that was not set yet may be off by decades.
_LONGEST_PAUSE_SECONDS = 365 * 86400.0
# Programs that write together, and threads, go back and forth between so many clocks.
_MOST_SHIFTS = 4


class Timeline:
    """The times of one run, in seconds since its start.

    The start is a whole second, so that start plus ``t`` gives back exactly the time that the source had. Where the
    clock went back, or forward by a year or more, what follows is moved by as much, until the clock is there again: the
    time between two values is kept.
    """

    def __init__(self, ledger: Ledger, start: float | None) -> None:
        """Begin in the second of *start*, seconds since the Unix epoch; with None every ``t`` is 0."""
        self._ledger = ledger
        self.start = float(math.floor(start)) if start is not None and is_wall(start) else None
        self.last = 0.0
        """The last ``t``."""
        self._shifts: list[float] = []
        self._is_running = False

    def run_start(self, **members: Any) -> dict[str, Any]:
        """Return a ``run_start`` with *members*, and with the start where that is a date: a clock may begin at 0."""
        started_at = {} if not self.start else {"started_at": utc_text(self.start)}
        return {"kind": "run_start", "t": 0.0, **members, **started_at}

    def t(self, wall: Any, place: str) -> float:
        """Return ``t`` at *wall*, seconds since the Unix epoch; another one, with an entry, where the clock jumped.

        None means that the source has no time here; for anything else that is not a time, there is an entry.
        """
        if wall is None or self.start is None:
            return self.last
        if not is_wall(wall):
            self._ledger.changed(TIME_UNUSABLE, place, wall, self.start + self.last)
        elif (t := wall - self.start) >= self.last and not self._is_jump(t):
            self.last = t + 0.0
        else:
            self.last = self._moved(t)
            self._ledger.changed(TIME_JUMPS, place, wall, self.start + self.last)
        self._is_running = True
        return self.last

    @property
    def is_running(self) -> bool:
        """Whether a time has been taken: what comes after it may be too far from it."""
        return self._is_running

    def times(self, walls: Sequence[float] | None, count: int) -> list[float] | None:
        """Return ``t`` of each of *count* rows at *walls*; None if ``t`` would change one of them."""
        if walls is None or self.start is None:
            return [self.last] * count
        start = self.start
        times = [wall - start + 0.0 for wall in walls]
        last = times[-1]
        is_near = last - (self.last if self._is_running else times[0]) < _LONGEST_PAUSE_SECONDS
        is_usable = is_near and times[0] >= self.last and last + start < LAST_WALL
        return times if is_usable and all(map(le, times, islice(times, 1, None))) else None

    def take(self, last: float) -> None:
        """Go on from the time *last*."""
        self.last, self._is_running = last, True

    def _is_jump(self, t: float) -> bool:
        """Return whether *t* is so much later than the last time that the clock was set."""
        return self._is_running and t - self.last >= _LONGEST_PAUSE_SECONDS

    def _moved(self, t: float) -> float:
        """Return the time, the last one or later, to which *t* is moved: as others were moved before, if possible."""
        known = [t + shift for shift in self._shifts if t + shift >= self.last and not self._is_jump(t + shift)]
        if known:
            return min(known)
        self._shifts = [*self._shifts, self.last - t][-_MOST_SHIFTS:]
        gap = t - self.last
        if abs(gap) >= _JUMP_SECONDS:
            way = "forward" if gap > 0 else "back"
            self._ledger.note(f"its clock went {way} by {abs(gap):.6g} s: the times after that are moved by as much")
        return self.last
