"""Checks files on threads of the compiled engine, in the order in which they are found."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, TypeGuard

from toyspec.checker.native_checker import native_options, report_of
from toyspec.findings import FileReport, PathError, Skipped
from toyspec.runs.walking import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from types import ModuleType

    import toyspec_engine

    from toyspec.checker.engines import Walk
    from toyspec.checker.options import CheckOptions
    from toyspec.runs.walking import Found

    Verdict = FileReport | PathError | Skipped
    Check = Callable[[Found, Callable[[int], None] | None], Verdict]

# Ctrl-C is noticed between two waits.
_WAIT_SECONDS = 0.05
# Enough to keep the threads busy, few enough to keep reports in memory small.
_PENDING_PER_THREAD = 16


class NativeThreads:
    """Threads of the compiled engine that check files."""

    def __init__(
        self, engine: ModuleType, options: CheckOptions, number: int, on_size: Callable[[int], None] | None
    ) -> None:
        """Start *number* threads; *on_size* is given the number of bytes that are done."""
        self._batch: toyspec_engine.Batch = engine.Batch(
            native_options(engine, options), number, options.choice.name == "auto"
        )
        self._most = number * _PENDING_PER_THREAD
        self._on_size = on_size
        self._elsewhere = 0
        # A dialect is recognized by what is read first, so a named one needs no engine.
        self._is_used = not options.choice.may_be_own and options.choice.name in (None, "auto")

    def check(self, found: Iterable[Found], check: Check, *, walk: Walk) -> Generator[tuple[Found, Verdict]]:
        """Yield each of *found* with its verdict, in order.

        *check* is given what the threads leave: standard input and pipes, gzip files, what may be of another program.
        """
        pending: deque[Found] = deque()
        for item in found:
            if self._takes(item):
                self._batch.submit(item.path, walk == "runs" and item.is_below)
            pending.append(item)
            if len(pending) >= self._most:
                yield self._first(pending, check)
        while pending:
            yield self._first(pending, check)

    def _first(self, pending: deque[Found], check: Check) -> tuple[Found, Verdict]:
        item = pending.popleft()
        verdict = self._waited(item.path) if self._takes(item) else None
        if verdict is None:
            verdict = check(item, self._forward if self._on_size else None)
            self._elsewhere += item.size if isinstance(item, Stream) else 0
        return item, verdict

    def _takes(self, found: Found) -> TypeGuard[Stream]:
        is_stream = self._is_used and isinstance(found, Stream) and found.size > 0 and not found.is_hinted
        # A document may be one object of another program.
        return is_stream and not found.path.endswith(".json")

    def _waited(self, path: str) -> Verdict | None:
        """Return the next verdict, which is on the file at *path*; None if the engine leaves it to others."""
        outcome = None
        while outcome is None:
            outcome = self._batch.next(_WAIT_SECONDS)
            self._forward(0)
        return _verdict(path, outcome)

    def _forward(self, size: int) -> None:
        if self._on_size:
            self._on_size(self._batch.received + self._elsewhere + size)


def _verdict(path: str, outcome: toyspec_engine.OutcomeFields) -> Verdict | None:
    """Return the verdict on the file at *path*; None if the engine leaves it to others."""
    if outcome["report"] is not None:
        return report_of(path, outcome["report"])
    if outcome["skipped"] is not None:
        return Skipped(path, outcome["skipped"])
    if outcome["failure"] is None:
        return None
    number, words = outcome["failure"]
    return PathError(path, words if number is None or os.name == "nt" else os.strerror(number))
