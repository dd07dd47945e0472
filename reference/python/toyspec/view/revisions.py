"""Numbers every change of the table, so that a client asks for what is new only."""

from __future__ import annotations

from collections import deque

_MOST_REMOVED = 10_000


class Revisions:
    """The number of the last change, and the runs that were removed. Its user holds a lock."""

    def __init__(self) -> None:
        self.last = 1
        """Number of the last change."""
        self._removed: deque[tuple[int, str]] = deque(maxlen=_MOST_REMOVED)
        self._forgotten = 0

    def next(self) -> int:
        """Return the number of a new change."""
        self.last += 1
        return self.last

    def remove(self, run: str) -> None:
        """Keep that the run with the id *run* is gone; of very many, only the last."""
        if len(self._removed) == _MOST_REMOVED:
            self._forgotten = self._removed[0][0]
        self._removed.append((self.next(), run))

    def begin(self, since: str | None) -> int | None:
        """Return the number that the text *since* names; None if what changed after it is not known."""
        begin = int(since) if since is not None and since.isdecimal() and len(since) < 20 else None
        return begin if begin is not None and self._forgotten <= begin <= self.last else None

    def removed(self, begin: int) -> list[str]:
        """Return the runs that were removed after the change *begin*."""
        return [run for revision, run in self._removed if revision > begin]
