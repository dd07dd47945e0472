"""Passes over the middle of a long stream, so that its last records are read without reading the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toyspec.format.profiles import closing_kind
from toyspec.reading.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.reading.followed_feed import FollowedFeed
    from toyspec.reading.live_bytes import LiveBytes

_FIRST_BYTES = 1 << 14
_GROWTH = 8
_MOST_BYTES = 1 << 24


class SkippedBytes:
    """The bytes of a file that were passed over. Their lines are counted only when a number is needed."""

    def __init__(self, file: LiveBytes, start: int, end: int) -> None:
        self._file = file
        self._start = start
        self._end = end
        self._lines: int | None = None

    @property
    def lines(self) -> int:
        """Number of LFs in these bytes."""
        if self._lines is None:
            self._lines = self._file.count(b"\n", self._start, self._end)
        return self._lines


def skip_to_last(
    records: int, file: LiveBytes, new_feed: Callable[[], FollowedFeed], head_bytes: int
) -> tuple[FollowedFeed, SkippedBytes] | None:
    """Move *file* so that its last *records* follow, at least one more before them; return its feed, and what it left.

    Return None, and move nothing, for a file that has to be read from its start: it is short, is one document, ends
    within its first *head_bytes*, or holds NUL bytes where it is looked at.
    """
    head = file.peek(head_bytes)
    head = head[: head.rfind(b"\n") + 1]
    size = file.status().st_size
    length = _FIRST_BYTES
    while 0 < len(head) < size - length and length <= _MOST_BYTES:
        feed = new_feed()
        if b"\0" in head or not _is_passed(feed, head):
            return None
        tail = file.read(size - length, length)
        cut = tail.find(b"\n") + 1
        start = size - length + cut
        if len(tail) < length or b"\0" in tail:
            return None
        if cut:
            feed.skip(start - len(head))
            found = feed.feed(tail[cut:])
            if sum(isinstance(item, Record) for item in found) > records:
                return _moved(file, new_feed(), head, start)
        length *= _GROWTH
    return None


def _is_passed(feed: FollowedFeed, head: bytes) -> bool:
    """Feed *head*; return whether the lines after it are read each by itself, and the run goes on."""
    found = feed.feed(head)
    records = [item for item in found if isinstance(item, Record)]
    return feed.is_by_lines and bool(records) and not any(_is_closing(record) for record in records)


def _is_closing(record: Record) -> bool:
    return record.kind is not None and record.kind == closing_kind(record.profile)


def _moved(file: LiveBytes, feed: FollowedFeed, head: bytes, start: int) -> tuple[FollowedFeed, SkippedBytes]:
    feed.feed(head)
    feed.skip(start - len(head))
    file.take(head)
    file.skip_to(start)
    return feed, SkippedBytes(file, len(head), start)
