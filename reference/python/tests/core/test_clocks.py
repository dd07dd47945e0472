"""Clocks that only go forward."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.writing.clocks import SYSTEM_CLOCK, Stopwatch
from toyspec.testing import ManualClock


@given(st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_time_never_goes_backwards(jumps: list[float]) -> None:
    """However the clock jumps, what is reported does not decrease, and is what has passed where it went forward."""
    clock = ManualClock(monotonic=1e5)
    watch = Stopwatch(clock)
    told = []
    highest = 0.0
    for jump in jumps:
        clock.advance(jump)
        highest = max(highest, clock.monotonic() - 1e5)
        told.append(watch.seconds())
        assert abs(highest - told[-1]) < 0.6e-6
    assert told == sorted(told)


def test_time_is_given_in_microseconds() -> None:
    """Digits beyond the microsecond are noise of the clock and cost space in every line."""
    clock = ManualClock()
    watch = Stopwatch(clock)
    clock.advance(0.123456789)
    assert 0.123457 == watch.seconds()


def test_goes_on_from_the_largest_times() -> None:
    """After a time that has no microseconds, the same one is repeated."""
    assert Stopwatch(SYSTEM_CLOCK, last=1.7e308).seconds() == 1.7e308
