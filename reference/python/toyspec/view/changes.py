"""Reports to every client what has changed."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

_MOST_CHANGES = 4096


class Changes:
    """The last changes, numbered; any thread may add one or wait for more."""

    def __init__(self, lock: threading.RLock) -> None:
        """Use *lock*, which may be held when a change is added."""
        self._changed = threading.Condition(lock)
        self._listed: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_MOST_CHANGES)
        self._is_closed = False
        self.number = 0
        """Number of the last change."""

    def add(self, change: dict[str, Any]) -> None:
        """Add a change and wake those who wait."""
        with self._changed:
            self.number += 1
            self._listed.append((self.number, change))
            self._changed.notify_all()

    def close(self) -> None:
        """End every wait, and all later ones at once."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> bool:
        """Wait for *seconds*; return True at once when this is closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, seconds)

    def after(self, number: int, timeout: float) -> tuple[int, list[dict[str, Any]], bool]:
        """Wait for changes after *number*; return the last number, the changes, and whether they are the last ones.

        Of several changes of one kind to one run only the last is returned.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self.number > number, timeout)
            latest = {(next(iter(each)), next(iter(each.values()))): each for at, each in self._listed if at > number}
            return self.number, list(latest.values()), self._is_closed
