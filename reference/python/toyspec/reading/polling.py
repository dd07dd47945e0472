"""When a follower polls, and when it stops."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from toyspec.places.addresses import is_address

POLL_SECONDS = 0.25
"""Time between two polls of a file."""

REMOTE_POLL_SECONDS = 2.0
"""Time between two polls of a store, which counts each request."""


class Polling(msgspec.Struct, frozen=True, kw_only=True):
    """When a follower polls, and when it stops. See ``follow``."""

    poll_seconds: float
    idle_seconds: float | None
    stop: Callable[[], bool]
    sleep: Callable[[float], object]
    clock: Callable[[], float]


def checked_poll_seconds(path: str, wanted: float | None) -> float:
    """Return the time between two polls of *path*, by default that of its place; raise ValueError if negative."""
    if wanted is None:
        return REMOTE_POLL_SECONDS if is_address(path) else POLL_SECONDS
    if wanted < 0:
        raise ValueError(f"poll_seconds is {wanted}; it must not be negative")
    return wanted
