"""Fakes for tests of programs that log: a clock that stands still, and an operating system that fails on demand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls

if TYPE_CHECKING:
    from collections.abc import Callable


class FailingCalls:
    """Counts the system calls of a writer and lets one of them fail, or all from there on.

    Give ``calls`` to the writer. A run that ends with ``was_hit`` False had fewer calls than *at*, which ends a
    loop over all of them.
    """

    def __init__(
        self,
        *,
        at: int,
        error: int,
        lasting: Literal["once", "for-ever"] = "once",
        effect: Literal["error", "short-write"] = "error",
        only: str | None = None,
    ) -> None:
        """Let call number *at*, counted from 1, fail with the errno *error*.

        A short write takes half of the bytes where it can, and fails the next time. *only* counts the calls of
        one name, for example ``fsync``.
        """
        self.made: list[str] = []
        """Names of the calls so far."""
        self.was_hit = False
        """True once a call has failed or was cut short."""
        self._at = at
        self._error = error
        self._lasting = lasting
        self._effect = effect
        self._only = only
        self._counted = 0
        names = (field.name for field in msgspec.structs.fields(SystemCalls))
        self.calls = SystemCalls(**{name: self._wrapped(name, getattr(SYSTEM_CALLS, name)) for name in names})

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.made.append(name)
            if not self._fails(name):
                return call(*arguments, **options)
            self.was_hit = True
            if name == "write" and self._effect == "short-write" and len(arguments[1]) > 1:
                # The next one fails outright: a disk that is full takes what fits, then nothing.
                self._effect, self._at = "error", self._counted + 1
                return call(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if name == "close":
                # As on Linux: the descriptor is gone, whatever close says.
                call(*arguments)
            raise OSError(self._error, os.strerror(self._error))

        return counted

    def _fails(self, name: str) -> bool:
        if self._only not in (None, name):
            return False
        self._counted += 1
        return self._counted == self._at or (self._lasting == "for-ever" and self._counted > self._at)


class ManualClock:
    """A clock that moves only by calls."""

    def __init__(self, *, monotonic: float = 0.0, wall: float = 1780219800.0) -> None:
        """Start at *monotonic* seconds and at *wall* seconds since the Unix epoch, UTC."""
        self._monotonic = monotonic
        self._wall = wall

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment."""
        return self._monotonic

    def wall(self) -> float:
        """Return seconds since the Unix epoch, UTC."""
        return self._wall

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass; fewer than none, as when a clock is set back."""
        self._monotonic += seconds
        self._wall += seconds
