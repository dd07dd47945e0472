"""Turns wall-clock times of another tool into ``t``, which never decreases."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from toyspec.convert.losses import TIME_BACKWARDS, TIME_UNUSABLE
from toyspec.writing.clocks import utc_text

if TYPE_CHECKING:
    from toyspec.convert.losses import Ledger

LAST_WALL = 253_402_300_800.0
"""The first second of the year 10000, which RFC 3339 cannot write."""


def is_wall(seconds: Any) -> bool:
    """Return whether *seconds* since the Unix epoch can be written as a date."""
    return isinstance(seconds, int | float) and 0.0 <= seconds < LAST_WALL


class Timeline:
    """The times of one run, in seconds since its start.

    The start is a whole second, so that start plus ``t`` gives back exactly the time that the source had.
    """

    def __init__(self, ledger: Ledger, start: float | None) -> None:
        """Begin in the second of *start*, seconds since the Unix epoch; with None every ``t`` is 0."""
        self._ledger = ledger
        self.start = float(math.floor(start)) if start is not None and is_wall(start) else None
        self.last = 0.0
        """The last ``t``."""

    @property
    def started_at(self) -> str | None:
        """The start as RFC 3339; None where it is not known."""
        return None if self.start is None else utc_text(self.start)

    def t(self, wall: float | None, place: str) -> float:
        """Return ``t`` at *wall*, seconds since the Unix epoch; the last one, with an entry, where that is impossible.

        None means that the source has no time here.
        """
        if wall is None or self.start is None:
            return self.last
        t = wall - self.start
        if t >= self.last and wall < LAST_WALL:
            self.last = t + 0.0
        else:
            cause = TIME_BACKWARDS if is_wall(wall) else TIME_UNUSABLE
            self._ledger.changed(cause, place, wall, self.start + self.last)
        return self.last
