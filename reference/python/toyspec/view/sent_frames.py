"""Keeps the frames of whole curves that were sent, in one file for all runs: a second start sends them again.

To make a frame again, the curves of its run are read from a file of their own and decoded. The cache holds nothing that
the streams do not say: a run whose stream has another identity is left out.
"""

from __future__ import annotations

import io
import os
import tempfile
import threading
from contextlib import suppress
from operator import itemgetter
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec

from toyspec.core.files import open_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.view.identities import Identity

_MOST_BYTES = 32 << 20
_SIZE_BYTES = 8
_BUFFER_BYTES = 1 << 17

Shown = tuple[str, int]
"""A metric, and the number of buckets that was asked for."""


class _Place(NamedTuple):
    offset: int
    size: int


class _Run(NamedTuple):
    identity: Identity
    places: dict[Shown, _Place]


class SentFrames:
    """The frames of whole curves by step. Its methods may be called by any thread."""

    def __init__(self, path: str, form: str) -> None:
        """Keep frames in the file at *path*; one of another *form* counts as none."""
        self._path = path
        self._form = form
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._old: dict[str, _Run] | None = None
        self._added: IO[bytes] | None = None
        self._new: dict[str, _Run] = {}
        self._end = 0
        self._is_closed = False

    def find(self, run: str, identity: Identity, shown: Shown) -> bytes | None:
        """Return the frames of a curve of *run*, whose stream has *identity*; None if they were not kept."""
        with self._lock:
            for known, file in self._sources():
                found = known.get(run)
                if found is None:
                    continue
                if found.identity != identity:
                    del known[run]
                elif (place := found.places.get(shown)) is not None:
                    return self._read(file, place)
        return None

    def keep(self, run: str, identity: Identity, shown: Shown, data: bytes) -> None:
        """Keep *data*, the frames of a curve of *run*; do nothing if they are too many or cannot be written."""
        with self._lock:
            if self._is_closed or self._end + len(data) > _MOST_BYTES:
                return
            try:
                if self._added is None:
                    folder = os.path.dirname(self._path)
                    self._added = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER_BYTES)  # noqa: SIM115 - see close
                self._added.write(data)
            except OSError:
                return
            known = self._new.get(run)
            if known is None or known.identity != identity:
                known = self._new[run] = _Run(identity, {})
            known.places[shown] = _Place(self._end, len(data))
            self._end += len(data)

    def close(self) -> None:
        """Write what is new and what was there before, as much as the file may hold."""
        with self._lock:
            self._is_closed = True
            if self._new:
                with suppress(OSError, UnicodeEncodeError):
                    self._save()
            for file in (self._file, self._added):
                if file is not None:
                    file.close()
            self._file = self._added = None

    def _save(self) -> None:
        beside = f"{self._path}.{os.getpid()}"
        runs: dict[str, _Run] = {}
        end = 0
        try:
            with open(beside, "wb") as file:
                for run, identity, shown, data in self._all():
                    if end + len(data) > _MOST_BYTES:
                        break
                    file.write(data)
                    runs.setdefault(run, _Run(identity, {})).places[shown] = _Place(end, len(data))
                    end += len(data)
                listed = [
                    (run, identity, [(*shown, *place) for shown, place in places.items()])
                    for run, (identity, places) in runs.items()
                ]
                text = msgspec.json.encode({"format": self._form, "runs": listed})
                file.write(text + len(text).to_bytes(_SIZE_BYTES, "little"))
            os.replace(beside, self._path)
        finally:
            with suppress(OSError):
                os.unlink(beside)

    def _all(self) -> Iterator[tuple[str, Identity, Shown, bytes]]:
        """Yield the frames that are new and those that were there before and are still right, metric by metric."""
        # They are sent in this order, so that the file is read from its beginning to its end.
        for run, identity, shown, file, place in sorted(self._all_places(), key=itemgetter(2)):
            yield run, identity, shown, self._read(file, place)

    def _all_places(self) -> Iterator[tuple[str, Identity, Shown, IO[bytes], _Place]]:
        for known, file in self._sources():
            for run, (identity, places) in known.items():
                newer = self._new.get(run)
                if newer is not None and newer.identity != identity:
                    continue
                for shown, place in places.items():
                    if known is self._new or newer is None or shown not in newer.places:
                        yield run, identity, shown, file, place

    def _sources(self) -> Iterator[tuple[dict[str, _Run], IO[bytes]]]:
        """Yield what is new, then what was there before."""
        if self._old is None:
            self._old = self._load()
        for known, file in ((self._new, self._added), (self._old, self._file)):
            if file is not None:
                yield known, file

    def _read(self, file: IO[bytes], place: _Place) -> bytes:
        file.seek(place.offset)
        data = file.read(place.size)
        if file is self._added:
            # The next frames go to its end.
            file.seek(self._end)
        return data

    def _load(self) -> dict[str, _Run]:
        try:
            self._file = io.BufferedReader(open_file(self._path).detach(), _BUFFER_BYTES)
            end = self._file.seek(-_SIZE_BYTES, os.SEEK_END)
            begin = end - int.from_bytes(self._file.read(_SIZE_BYTES), "little")
            self._file.seek(begin)
            found = msgspec.json.decode(self._file.read(end - begin))
            if found["format"] != self._form:
                return {}
            return {
                run: _Run(
                    (at[0], at[1], at[2], at[3]),
                    {(name, buckets): _Place(offset, size) for name, buckets, offset, size in places},
                )
                for run, at, places in found["runs"]
            }
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError, IndexError):
            # A file that another version wrote, or that is cut, counts as none.
            return {}
