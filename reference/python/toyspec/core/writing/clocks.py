"""The two clocks of a run: a monotonic one and the wall clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a writer gets the time; see ``toyspec.testing.ManualClock`` for one that a test moves."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; must not be set back."""

    def wall(self) -> float:
        """Return seconds since the Unix epoch, UTC."""


class SystemClock:
    """The clocks of the system."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def __repr__(self) -> str:
        return "SystemClock()"


SYSTEM_CLOCK: Clock = SystemClock()


class Stopwatch:
    """Measures seconds since its start, in whole microseconds, and never goes back."""

    def __init__(self, clock: Clock, *, last: float = 0.0) -> None:
        """Start now at *last* seconds."""
        self.last = last
        """The last result in seconds; set it to a larger number to go on from there."""
        self._monotonic = clock.monotonic
        self._origin = clock.monotonic() - last

    def seconds(self) -> float:
        """Return seconds since the start; the last result if the clock was set back."""
        # Digits beyond the microsecond are noise, and cost space in every line. This is round, at a fifth of its cost.
        now = ((self._monotonic() - self._origin) * 1e6 + 0.5) // 1 / 1e6
        # Near the largest number there are no microseconds: now is nan, which is not more than anything.
        self.last = max(self.last, now)
        return self.last


def utc_text(wall: float) -> str:
    """Return seconds since the Unix epoch as RFC 3339 in UTC, whole seconds: ``2026-05-31T09:30:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))
