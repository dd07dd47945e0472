"""What long work reports to, in every part of the package."""

from __future__ import annotations

from typing import Protocol


class Watch(Protocol):
    """Watches work that takes long: a function of the bytes that are done, and of all bytes as far as known."""

    def __call__(self, done: int, size: int, /) -> None:
        """Take that *done* of *size* bytes are done."""
