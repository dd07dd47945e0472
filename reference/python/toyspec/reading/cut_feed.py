"""The place of a feed in its stream, and the bytes that no LF has committed: the same for records and for rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.format.boxed_rows import BoxCutter
    from toyspec.format.document_rows import DocumentCutter
    from toyspec.format.lines import LineSplitter
    from toyspec.read_reports import Fragment


class CutFeed:
    """A feed that cuts the stream with ``_splitter``."""

    chunk_bytes = 1 << 16
    """Number of bytes that are fed at once when a file is read."""

    _splitter: LineSplitter | DocumentCutter | BoxCutter

    @property
    def max_line_bytes(self) -> int:
        """Longest line that is read, LF excluded."""
        return self._splitter.max_line_bytes

    @property
    def committed(self) -> int:
        """Byte offset after the last LF, or after the last object of a document that is not closed."""
        return self._splitter.committed

    @property
    def next_line(self) -> int:
        """Number of the line that the next LF ends, counted from 1."""
        return self._splitter.next_number

    @property
    def size(self) -> int:
        """Number of bytes fed so far."""
        return self._splitter.size

    def fragment(self) -> Fragment | None:
        """Return the bytes that are not committed at this time; None if there are none."""
        return self._splitter.fragment()

    def drop_fragment(self) -> None:
        """Drop the bytes that are not committed, as if they had not been fed."""
        self._splitter.drop_fragment()
