"""Reads the scalars of a kaun/v1 run as they are appended, call by call."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from toyspec.core.errors import StreamError, StreamMissingError
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.generated.limits import MAX_FINDINGS_PER_RULE
from toyspec.core.kaun.scalars import scalar_of
from toyspec.core.read_reports import Gap
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.stream_files import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.generated.kaun_v1 import Scalar

_BLOCK_BYTES = 1 << 16
_KIND = "scalar"


class SkippedLine(msgspec.Struct, frozen=True):
    """A committed line that gave no scalar."""

    line: int
    """Line number, counted from 1."""
    offset: int
    """Byte offset of its first byte, counted from 0."""
    reason: str
    """The fact; log text in it is escaped and cut."""


class ScalarStream:
    """A position in the events of one run. It starts at the first byte.

    Lines of a kind other than scalar are passed over. A line that is unreadable, or of kind scalar but not a valid one,
    is passed over and listed.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.last_mtime = 0.0
        """Time of the file's last change when it was read last, in seconds since the Unix epoch; 0 before."""
        self.skipped: list[SkippedLine] = []
        """The first 100 lines that the last reading passed over, in order."""
        self.skipped_lines = 0
        """Number of all lines passed over so far."""
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
        self._feed = RecordFeed(profile="kaun/v1")

    def read(self) -> list[Scalar]:
        """Return the scalars that were committed since the last call.

        A file that was replaced or has become shorter is read from its start. When it is missing, return nothing
        and start over when it comes; when it cannot be read, return nothing.
        """
        self.skipped = []
        found: list[Scalar] = []
        try:
            status = os.stat(self.path)
            if self._descriptor >= 0 and (status.st_dev, status.st_ino) != self._identity:
                found.extend(self._new_scalars())
                self._restart()
            self._open()
            found.extend(self._new_scalars())
        except (FileNotFoundError, NotADirectoryError, StreamMissingError):
            self._restart()
        except (OSError, StreamError, ValueError):
            pass
        return found

    def close(self) -> None:
        """Close the file and keep the position: the next reading goes on from there."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _open(self) -> None:
        if self._descriptor < 0:
            self._descriptor = open_stream(self.path)
        status = os.fstat(self._descriptor)
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._feed.size:
            self._feed = RecordFeed(profile="kaun/v1")
        self._identity = identity
        self.last_mtime = status.st_mtime

    def _restart(self) -> None:
        self.close()
        self._identity = None

    def _new_scalars(self) -> Iterator[Scalar]:
        os.lseek(self._descriptor, self._feed.size, os.SEEK_SET)
        while block := os.read(self._descriptor, _BLOCK_BYTES):
            for item in self._feed.feed(block):
                scalar = self._scalar(item)
                if scalar is not None:
                    yield scalar

    def _scalar(self, item: Record | Gap) -> Scalar | None:
        if isinstance(item, Gap):
            self._skip(item.line, item.offset, f"{item.reason}: {item.message}")
            return None
        if item.kind not in (None, _KIND):
            return None
        try:
            return scalar_of(item.raw, item.value)
        except ValueError as error:
            self._skip(item.line, item.offset, str(error))
            return None

    def _skip(self, line: int, offset: int, reason: str) -> None:
        self.skipped_lines += 1
        if len(self.skipped) < MAX_FINDINGS_PER_RULE:
            self.skipped.append(SkippedLine(line, offset, reason))

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def open_events(directory: str | os.PathLike[str]) -> ScalarStream:
    """Return the events of the run in *directory*, from the first on; the file need not exist yet."""
    return ScalarStream(os.path.join(directory, EVENTS_FILE))


def read_events(stream: ScalarStream) -> list[Scalar]:
    """Return the scalars that were committed since the last call; see ``ScalarStream.read``."""
    return stream.read()


def close_events(stream: ScalarStream) -> None:
    """Close the file of *stream* and keep the position."""
    stream.close()
