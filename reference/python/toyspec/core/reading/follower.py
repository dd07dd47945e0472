"""Follows a stream that is being written: yields records as they are committed, and changes of the file."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import msgspec

from toyspec.core.errors import check_choice
from toyspec.core.findings import Gap, Profile
from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE, closing_kind, profile_named, stream_name
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading import readers
from toyspec.core.reading.live_stream import Change, LiveStream
from toyspec.core.reading.log_detection import CONSOLE_BYTES, HEAD_BYTES, DialectChoice, detect_profile_at, first_object
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.stream_files import locate_stream

if TYPE_CHECKING:
    from toyspec.core.findings import DialectUse
    from toyspec.core.reading.live_stream import LiveBytes
    from toyspec.core.reading.readers import LogFeed, OpenedLog


AnyFeed: TypeAlias = "RecordFeed | LogFeed"


class FollowedFeed:
    """A ``RecordFeed`` until the first lines show that the file is the log of another program."""

    def __init__(
        self,
        choice: DialectChoice,
        plain: Callable[..., RecordFeed],
        path: str,
        detect: Callable[..., Profile | None],
    ) -> None:
        self._choice = choice
        self._path = path
        self._detect = detect
        name = stream_name(os.path.basename(path))
        self._may_be_console = choice.name == "auto" and name not in (EVENTS_FILE, METRICS_FILE)
        self._held: bytes | None = b"" if choice.is_open else None
        # What the lines of a text are if no metrics of a program follow; None before and after that is the question.
        self._gaps: list[Any] | None = None
        self._plain = partial(plain, detect=detect)
        self.feed_now: AnyFeed = self._plain()
        """The feed that makes the records now."""
        self.use: DialectUse | None = None
        """How the log of another program is read; whether the run ended is left open, since more may follow."""

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records or rows that *chunk* commits, and a gap for each unreadable line."""
        if self._held is None:
            return self.feed_now.feed(chunk)
        self._held += chunk
        if b"\n" not in self._held and len(self._held) < HEAD_BYTES:
            # A document needs no LF at its end, and may never get one.
            if self._held.rstrip()[-1:] in (b"}", b"]"):
                _, log = self._decide(self._held)
                if log is not None and log.is_document:
                    return self._rows(log)
            self.feed_now.feed(chunk)
            return []
        if self._gaps is not None and self._goes_on(self._held, len(chunk)):
            self._gaps += self.feed_now.feed(chunk)
            return []
        return self._decided(self._held, chunk)

    def _decided(self, held: bytes, chunk: bytes) -> list[Any]:
        """Return what *chunk*, the end of *held*, commits, now that it is known how the file is read."""
        gaps, self._gaps = self._gaps or [], None
        self._held = None
        profile, log = self._decide(held)
        if profile is not None:
            self.feed_now = self._plain(profile=profile)
            return self.feed_now.feed(held)
        if log is None:
            gaps += self.feed_now.feed(chunk)
            if not (self._may_be_console and _is_text(held)):
                return gaps
            self._held, self._gaps = held, gaps
            return []
        self._held = held
        return self._rows(log)

    def _decide(self, held: bytes) -> tuple[Any, OpenedLog | None]:
        return self._choice.decide(held, self._detect, path=self._path)

    def _rows(self, log: OpenedLog) -> list[Any]:
        """Return the rows of what is held, and of all that follows from now on."""
        held, self._held = self._held or b"", None
        self.use = log.use
        self.feed_now = log.feed(max_line_bytes=self.feed_now.max_line_bytes)
        return self.feed_now.feed(held)

    def _goes_on(self, held: bytes, size: int) -> bool:
        """Return whether the last *size* bytes of *held* are more text, without what a program is known by."""
        lines = held[held.rfind(b"\n", 0, len(held) - size) + 1 :]
        return len(held) < CONSOLE_BYTES and _is_text(lines) and readers.dialects().may_go_on(lines, self._choice)

    def at_end(self) -> list[Any]:
        """Return the gaps that were held back since text may be the output of a program; call it at the end."""
        gaps, self._gaps = self._gaps or [], None
        return gaps

    @property
    def is_by_lines(self) -> bool:
        """True once it is known how the file is read, and that each line is read by itself."""
        return self._held is None and self.feed_now.is_by_lines

    def drop_fragment(self) -> None:
        """Drop the bytes after the last LF, as if they had not been fed."""
        self.feed_now.drop_fragment()
        if self._held is not None:
            self._held = self._held[: self._held.rfind(b"\n") + 1]


def _is_text(data: bytes) -> bool:
    """Return whether *data* may be what a program prints before its first metrics."""
    is_short = len(data) < CONSOLE_BYTES
    return is_short and b"\0" not in data and data.lstrip()[:1] not in (b"{", b"[") and first_object(data) is None


Until = Literal["run_end", "forever"]
"""Whether following stops after the end of the run, or continues with later files at the path."""
EventKind = Literal["gap", "rotated", "truncated", "replaced", "gone", "ended"]
"""What happened.

- ``gap``: a committed line is unreadable and was skipped.
- ``rotated``: another file is at the path; the old one was renamed, and read to its end. The new one is read from
  its start.
- ``replaced``: another file is at the path and the old one is deleted, or bytes that
  were read have changed: the file was edited, or cut and rewritten. It is read again from its start.
- ``truncated``: the file is shorter than its committed part was. It is read again from its start.
- ``gone``: no file is at the path, and the old one was read to its end. It is followed until a new one appears.
- ``ended``: the run wrote its last event.
"""
_CHUNK_BYTES = 1 << 16
_FIRST_BYTES = 1 << 14
_GROWTH = 8
_MOST_BYTES = 1 << 24
POLL_SECONDS = 0.25
"""Time between two polls of a file."""
REMOTE_POLL_SECONDS = 2.0
"""Time between two polls of a store, which counts each request."""


class TailEvent(msgspec.Struct, frozen=True):
    """A change of a followed stream other than a new record."""

    kind: EventKind
    path: str
    """Path of the stream."""
    line: int
    """Number of the unreadable line, or of the line that would have come next, counted from 1."""
    offset: int
    """Byte offset of that line from the start of the stream, counted from 0."""
    length: int = 0
    """Number of bytes in the gap with its LF, or of bytes after the last LF that are lost with the file."""
    reason: str = ""
    """Name of the rule that the line breaks; empty for other events."""
    message: str = ""
    """The fact about a gap; log text in it is escaped and cut."""


class Follower:
    """The records and events of one path, as they come. See ``follow``.

    If it is not read to its end, close it by ``close`` or as a context manager.
    """

    def __init__(
        self, path: str, until: Until, feed: partial[RecordFeed], choice: DialectChoice, polling: Polling
    ) -> None:
        self._path = path
        self._until = until
        self._new_feed = feed
        self._choice = choice
        self._polling = polling
        # Nothing here refers to the follower: without a cycle, a dropped one closes its file at once.
        self._stream = LiveStream(lambda: locate_stream(path, choice.stream_files), chunk_bytes=_CHUNK_BYTES)
        self._changes: Iterator[bytes | Change] | None = None
        self._items: deque[Record | TailEvent] = deque()
        self._last_item: float | None = None
        self._is_finished = False
        self.last: int | None = None
        """Number of records at the end of a long stream that it begins with; None to begin with the first one."""
        self._begin_stream(path)

    def __repr__(self) -> str:
        return f"<Follower of {self._path!r}>"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record | TailEvent:
        while (item := self._next()) is None:
            if self.is_over:
                raise StopIteration
            self._polling.sleep(self._polling.poll_seconds)
        return item

    def new(self) -> Iterator[Record | TailEvent]:
        """Yield what has come since the last poll, without waiting: for programs that follow several paths at once."""
        while (item := self._next()) is not None:
            yield item

    @property
    def is_over(self) -> bool:
        """True once nothing more is to come."""
        return self._is_finished and not self._items

    @property
    def dialect(self) -> DialectUse | None:
        """How the log of another program is read; None for a stream of a profile, and for an unknown format.

        Whether the run ended is left open: more may follow.
        """
        return self._feed.use

    @property
    def trouble(self) -> Exception | None:
        """The error of the last poll, None if it succeeded; following polls again."""
        return self._stream.trouble

    def close(self) -> None:
        """Stop following and close the file."""
        self._is_finished = True
        self._items.clear()
        self._changes = None
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> Record | TailEvent | None:
        """Return what comes next; None after each poll, where there is time to wait, and at the end."""
        if self._last_item is None or self._changes is not None:
            self._last_item = self._polling.clock()
        try:
            while not self._items and not self._is_finished:
                if self._changes is None:
                    if self._polling.stop():
                        self._finish()
                        continue
                    self._changes = self._stream.poll()
                change = next(self._changes, None)
                if change is None:
                    self._changes = None
                    # All that is there was read: a run may go on after its end.
                    if not self._is_last_poll(self._last_item):
                        return None
                    self._finish()
                elif isinstance(change, bytes):
                    self._take(self._feed.feed(change))
                    if self._polling.stop():
                        self._finish()
                else:
                    self._change(change)
        except BaseException:
            self.close()
            raise
        return self._items.popleft() if self._items else None

    def _is_last_poll(self, last_item: float) -> bool:
        if self._has_ended and self._until == "run_end":
            return True
        idle_seconds = self._polling.idle_seconds
        is_idle = idle_seconds is not None and self._polling.clock() - last_item >= idle_seconds
        return is_idle and self._stream.is_settled

    def _finish(self) -> None:
        self._take(self._feed.at_end())
        self._is_finished = True
        self._changes = None
        self._stream.close()

    def _begin_stream(self, path: str) -> None:
        self._feed = self._new_feed_of(path)
        self._has_ended = False
        self._skipped_lines: Callable[[], int] = lambda: 0

    def _new_feed_of(self, path: str) -> FollowedFeed:
        return FollowedFeed(self._choice, self._new_feed, path, partial(detect_profile_at, path))

    def _skip(self, file: LiveBytes, records: int) -> None:
        """Pass over what is before the last *records*, of which at least one more follows, if that is much.

        Nothing is passed over in a file that has to be read from its start: it is short, is one document, ends within
        its first bytes, or holds NUL bytes where it is looked at.
        """
        head = file.peek(_CHUNK_BYTES)
        head = head[: head.rfind(b"\n") + 1]
        size, length = file.status().st_size, _FIRST_BYTES
        while 0 < len(head) < size - length and length <= _MOST_BYTES:
            feed = self._new_feed_of(file.path)
            found = _records(feed.feed(head))
            tail = file.read(size - length, length)
            may_skip = (
                feed.is_by_lines
                and found
                and not any(each.kind and each.kind == closing_kind(each.profile) for each in found)
            )
            if not may_skip or b"\0" in head or len(tail) < length or b"\0" in tail:
                return
            cut = tail.find(b"\n") + 1
            if cut and len(_records(feed.feed(tail[cut:]))) > records:
                self._feed = self._new_feed_of(file.path)
                self._feed.feed(head)
                start = size - length + cut
                self._feed.feed_now.skip(start - len(head))
                file.take(head)
                file.skip_to(start)
                # They are counted only when a number is needed.
                self._skipped_lines = cache(partial(file.count_lines, len(head), start))
                return
            length *= _GROWTH

    def _change(self, change: Change) -> None:
        file = self._stream.file
        assert file is not None
        if change == "begun":
            self._begin_stream(file.path)
            if self.last is not None:
                try:
                    self._skip(file, self.last)
                except OSError:
                    # Reading from the start meets the error again, or does not need these bytes.
                    file.restart()
        elif change == "uncommitted-changed":
            self._feed.drop_fragment()
        else:
            feed = self._feed.feed_now
            event = TailEvent(change, file.path, feed.next_line, feed.committed, feed.size - feed.committed)
            self._items.append(event)
            if change != "gone":
                self._begin_stream(file.path)

    def _take(self, found: list[Any]) -> None:
        """Take in the records and gaps *found*."""
        file = self._stream.file
        for item in found:
            assert file is not None
            if isinstance(item, Gap):
                line = item.line + self._skipped_lines()
                gap = TailEvent("gap", file.path, line, item.offset, item.length, item.reason, item.message)
                self._items.append(gap)
                continue
            self._items.append(item)
            if item.kind is None:
                continue
            if item.kind == closing_kind(item.profile):
                self._has_ended = True
                self._items.append(TailEvent("ended", file.path, item.line + 1, item.offset + len(item.raw) + 1))
            elif item.goes_on:
                self._has_ended = False


def follow(  # noqa: PLR0913
    path: str | os.PathLike[str],
    *,
    until: Until = "run_end",
    profile: Profile | str | None = None,
    poll_seconds: float | None = None,
    idle_seconds: float | None = None,
    stop: Callable[[], bool] | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    dialect: DialectChoice | str | None = "auto",
) -> Follower:
    """Return a follower of the stream at *path*, from its first record on.

    *path* is a stream or a run directory, which need not exist yet. Each record is yielded once, as soon as
    it is committed. Damage is an event, not an exception; a follower never repairs. The log of another program is
    recognized and read by its *dialect*, as by ``read``.

    Following ends when all was read of a run that has ended (*until* ``"run_end"``), after *idle_seconds* without a
    change by *clock*, or as soon as *stop* returns True. Between polls it calls *sleep* with *poll_seconds*, by default
    0.25 and for an address 2; a file watcher may end the sleep early. An idle poll costs one ``stat`` call, or one
    request.

    Iterating raises StreamUnreadableError if the path cannot be followed: no permission, or not a regular file.
    After a file was opened, such errors are waited out; see ``Follower.trouble``.
    """
    check_choice("until", until, get_args(Until))
    known = profile_named(profile)
    path = public(os.fspath(path))
    poll_seconds = checked_poll_seconds(path, poll_seconds)
    polling = Polling(
        poll_seconds=poll_seconds, idle_seconds=idle_seconds, stop=stop or (lambda: False), sleep=sleep, clock=clock
    )
    feed = partial(RecordFeed, profile=known, max_line_bytes=max_line_bytes)
    choice = dialect if isinstance(dialect, DialectChoice) else DialectChoice(None if profile else dialect)
    return Follower(path, until, feed, choice, polling)


def follow_last(
    path: str | os.PathLike[str],
    records: int | None,
    *,
    idle_seconds: float | None,
    dialect: DialectChoice,
) -> Follower:
    """Return a follower that begins near the end of a long stream; its last *records*, and at least one more, follow.

    With *records* None, in a short stream, and in one whose lines cannot be read alone, it begins with the first. The
    numbers of lines are right in gaps only: elsewhere they count from where reading began. An end of the run that is
    followed by more than the last records is not noticed.
    """
    follower = follow(path, idle_seconds=idle_seconds, dialect=dialect)
    follower.last = records
    return follower


def _records(found: list[Any]) -> list[Record]:
    return [item for item in found if isinstance(item, Record)]


class Polling(msgspec.Struct, frozen=True, kw_only=True):
    """When a follower polls, and when it stops. See ``follow``."""

    poll_seconds: float
    idle_seconds: float | None
    stop: Callable[[], bool]
    sleep: Callable[[float], object]
    clock: Callable[[], float]


def checked_poll_seconds(path: str, wanted: float | None) -> float:
    """Return the time between two polls of *path*, by default that of its place; raise ValueError if negative."""
    if wanted is None:
        return REMOTE_POLL_SECONDS if is_address(path) else POLL_SECONDS
    if wanted < 0:
        raise ValueError(f"poll_seconds is {wanted}; it must not be negative")
    return wanted
