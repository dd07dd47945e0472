"""Keeps the frames of whole curves that were sent, in one file for all runs: a second start sends them again.

To make a frame again, the curves of its run are read from a file of their own and decoded. The cache holds nothing that
the streams do not say: a run whose stream has another identity is left out.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from toyspec.core.files import open_file
from toyspec.view.curve_store import write_whole

if TYPE_CHECKING:
    from toyspec.view.opened_files import Identity

_MOST_BYTES = 32 << 20

Shown = tuple[str, int]
"""A metric, and the number of buckets that was asked for."""


class _Run(msgspec.Struct, array_like=True):
    identity: tuple[int, int, int, int]
    frames: dict[Shown, bytes]


class SentFrames:
    """The frames of whole curves by step. Its methods may be called by any thread."""

    def __init__(self, path: str, form: str) -> None:
        """Keep frames in the file at *path*; one of another *form* counts as none."""
        self._path = path
        self._form = form
        self._lock = threading.Lock()
        self._is_changed = False

    @cached_property
    def _runs(self) -> dict[str, _Run]:
        """Those of each run, in the order in which they were kept."""
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError), open_file(self._path) as file:
            form, runs = msgspec.msgpack.decode(file.read(), type=tuple[str, dict[str, _Run]])
            if form == self._form:
                return runs
        # A file that another version wrote, or that is cut, counts as none.
        return {}

    @cached_property
    def _size(self) -> int:
        return sum(map(_size_of, self._runs.values()))

    def find(self, run: str, identity: Identity, shown: Shown) -> bytes | None:
        """Return the frames of a curve of *run*, whose stream has *identity*; None if they were not kept."""
        with self._lock:
            found = self._runs.get(run)
            return found.frames.get(shown) if found is not None and found.identity == identity else None

    def keep(self, run: str, identity: Identity, shown: Shown, data: bytes) -> None:
        """Keep *data*, the frames of a curve of *run*; those of the runs that were kept first make room."""
        with self._lock:
            size, known = self._size + len(data), self._runs.pop(run, None)
            if known is not None and known.identity != identity:
                size -= _size_of(known)
                known = None
            known = self._runs[run] = known or _Run(identity, {})
            size -= len(known.frames.get(shown, b""))
            known.frames[shown] = data
            while size > _MOST_BYTES:
                size -= _size_of(self._runs.pop(next(iter(self._runs))))
            self._size = size
            self._is_changed = True

    def close(self) -> None:
        """Write what is new and what was there before."""
        with self._lock:
            if self._is_changed:
                with suppress(UnicodeEncodeError):
                    write_whole(self._path, msgspec.msgpack.encode((self._form, self._runs)))


def _size_of(run: _Run) -> int:
    return sum(map(len, run.frames.values()))
