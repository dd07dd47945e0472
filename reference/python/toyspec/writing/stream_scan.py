"""Reads a stream through the handle that is about to append to it, under its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.errors import StreamRefusedError
from toyspec.read_reports import Gap
from toyspec.reading.records import Record, RecordFeed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.findings import Profile
    from toyspec.writing.append_file import AppendFile

_BLOCK_BYTES = 1 << 16


class StreamScan:
    """One pass over the records of *file*; iterate, then ask where the committed lines end.

    Without *profile*, that of the first record is taken.
    """

    def __init__(self, file: AppendFile, *, profile: Profile | None = None) -> None:
        self._file = file
        self._feed = RecordFeed(profile=profile)

    def __iter__(self) -> Iterator[Record]:
        """Yield every record; raise StreamRefusedError at a committed line that is unreadable."""
        while block := self._file.read(self._feed.size, _BLOCK_BYTES):
            for item in self._feed.feed(block):
                if isinstance(item, Gap):
                    fact = f"line {item.line} is damaged ({item.reason}: {item.message}); nothing is appended to it"
                    raise StreamRefusedError(self._file.path, "damaged", fact)
                yield item

    def read_all(self) -> int:
        """Read every record and return the byte offset after the last LF; raise as iterating does."""
        for _ in self:
            pass
        return self.committed

    @property
    def committed(self) -> int:
        """Byte offset after the last LF that was read."""
        return self._feed.committed
