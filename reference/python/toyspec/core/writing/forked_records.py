"""Counts what forked processes log into a run of their parent, which alone writes it.

The counts are in a file without a name, which a process has open when it forks: they arrive however a child ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class ForkedRecords:
    """The records of one stream that children of its process were asked to write."""

    __slots__ = ("__weakref__", "_closing", "_descriptor", "_is_open", "_taken", "is_child")

    def __init__(self) -> None:
        self.is_child = False
        """True in a process that was forked off the one that has the stream; asking the system would take longer."""
        self._descriptor: int | None = None
        self._closing: Callable[[], Any] | None = None
        self._is_open = True
        self._taken = 0
        _watched.add(self)
        _watch()

    def open(self) -> None:
        """Count again after ``close``."""
        self._is_open = True

    def prepare(self) -> None:
        """Let a child that is about to be forked count; where there is no room for that, it only reports."""
        if self._is_open and self._descriptor is None:
            with contextlib.suppress(OSError):
                self._descriptor, path = tempfile.mkstemp(prefix="toyspec-")
                closing = self._closing = weakref.finalize(self, os.close, self._descriptor)
                # The run may end after the finalizers of the program.
                closing.atexit = False
                os.unlink(path)

    def add(self, kind: str) -> None:
        """Count a record of *kind* in a child."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, f"{kind}\n".encode())

    def taken(self) -> Counter[str]:
        """Return the number of records by kind that were counted since the last call."""
        if self._descriptor is None:
            return Counter()
        with contextlib.suppress(OSError):
            size = os.fstat(self._descriptor).st_size
            found = os.pread(self._descriptor, size - self._taken, self._taken).decode()
            self._taken = size
            return Counter(found.splitlines())
        return Counter()

    def close(self) -> None:
        """Count no more."""
        self._is_open = False
        if self._closing is not None:
            self._closing()
            self._closing = self._descriptor = None
            self._taken = 0


_watched: weakref.WeakSet[ForkedRecords] = weakref.WeakSet()
_is_watching = False


def _watch() -> None:
    global _is_watching  # noqa: PLW0603 - the hook is set once for a process
    if not _is_watching and hasattr(os, "register_at_fork") and hasattr(os, "pread"):
        _is_watching = True
        os.register_at_fork(before=_prepare_all, after_in_child=_begin_children)


def _begin_children() -> None:
    for each in list(_watched):
        each.is_child = True


def _prepare_all() -> None:
    for each in list(_watched):
        each.prepare()
