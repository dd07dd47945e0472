"""Adds up what a conversion has read, for whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.watching import Watch


class Total:
    """Adds up the bytes that were read."""

    def __init__(self, size: int, watch: Watch | None) -> None:
        """Report to *watch*, if there is one, how much of *size* bytes was read."""
        self._size = size
        self._watch = watch
        self._done = 0

    def advance(self, size: int) -> None:
        """Report that *size* more bytes were read."""
        self._done += size
        if self._watch is not None:
            self._watch(self._done, self._size)
