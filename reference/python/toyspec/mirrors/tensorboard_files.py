"""Mirrors a run into a TensorBoard event file, which TensorBoard reads while it grows."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from toyspec.convert import tensorboard_messages, tensorboard_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.mirrors.destination import MirroredRun, NumberedRow
    from toyspec.mirrors.rows import SentRow
    from toyspec.mirrors.settings import Mirror

_DEFAULT_DIRECTORY = "tensorboard"


def destination(mirror: Mirror) -> EventFile:
    """Return the event file of *mirror*."""
    return EventFile(mirror.into or _DEFAULT_DIRECTORY)


class EventFile:
    """One event file, in a directory of the run's name.

    Equal rows have equal bytes, and each goes to the offset after the row before: what is sent twice is there once.
    Histograms are left out.
    """

    def __init__(self, directory: str) -> None:
        self._root = directory
        self._descriptor = -1
        self._offset = 0
        self._run: MirroredRun | None = None

    def open(self, run: MirroredRun, place: Any) -> int | None:
        """Open the file; it begins again where no *place* in it is known."""
        self._run = run
        path = self._path(run)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        is_known = isinstance(place, int) and os.path.isfile(path) and os.path.getsize(path) >= place
        flags = os.O_WRONLY | os.O_CREAT | (0 if is_known else os.O_TRUNC)
        self._descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0), 0o666)
        if is_known:
            self._offset = place
            return None
        self._offset = 0
        self._write(_records(_beginning(run)))
        return 0

    def missing(self, rows: Sequence[NumberedRow]) -> Sequence[NumberedRow]:
        """Return *rows*: they are written to the same place again."""
        return rows

    def send(self, rows: Sequence[NumberedRow]) -> int:
        """Write the values of *rows*, rounded to binary32."""
        self._write(_records(event for _, row in rows for event in self._events(row)))
        return self._offset

    def finish(self, reason: str, t: float) -> None:
        """Write whether the run succeeded, which TensorBoard shows for runs with settings."""
        assert self._run is not None
        if self._run.settings:
            event = tensorboard_messages.ending_event(self._run.wall(t), is_success=reason == "completed")
            data = _records([event])
            # Not a row: written again, it goes to the same place.
            offset = self._offset
            self._write(data)
            self._offset = offset
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _path(self, run: MirroredRun) -> str:
        """Return the path of the file; a directory that another run of this name has gets the identity after it."""
        name = f"events.out.tfevents.{int(run.started):010d}.{run.identity}.toyspec"
        plain = os.path.join(self._root, run.run_id)
        files = [entry for entry in (os.listdir(plain) if os.path.isdir(plain) else []) if "tfevents" in entry]
        return os.path.join(plain if not files or name in files else f"{plain}-{run.identity}", name)

    def _events(self, row: SentRow) -> Iterator[bytes]:
        assert self._run is not None
        wall = self._run.wall(row.t)
        if row.resumes_after is not None:
            yield tensorboard_messages.session_event(wall, row.resumes_after + 1)
        for name, value in row.values.items():
            if value is None or isinstance(value, int | float):
                number = math.nan if value is None else tensorboard_messages.binary32(value)
                yield tensorboard_messages.scalar_event(wall, row.step or 0, name, number)

    def _write(self, data: bytes) -> None:
        os.lseek(self._descriptor, self._offset, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._offset += len(data)


def _records(events: Any) -> bytes:
    return b"".join(map(tensorboard_records.record, events))


def _beginning(run: MirroredRun) -> Iterator[bytes]:
    yield tensorboard_messages.version_event(run.wall(0.0))
    if run.settings:
        shown = {name: tensorboard_messages.hparam(value) for name, value in run.settings.items()}
        yield tensorboard_messages.hparams_event(run.wall(0.0), shown, run.group or "")
