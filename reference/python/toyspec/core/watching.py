"""What long work reports to, in every part of the package."""

from __future__ import annotations

from typing import Protocol


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


class Watch(Protocol):
    """Watches work that takes long: a function of the bytes that are done, and of all bytes as far as known."""

    def __call__(self, done: int, size: int, /) -> None:
        """Take that *done* of *size* bytes are done."""
