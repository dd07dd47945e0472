"""Follows a stream that is being written: records as they are committed, and what happens to the file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

import msgspec

from toyspec.errors import StreamMissingError, StreamUnreadableError
from toyspec.findings import Profile
from toyspec.format.profiles import closing_kind
from toyspec.generated.limits import MAX_LINE_BYTES
from toyspec.read_reports import Gap
from toyspec.reading.live_file import LiveFile
from toyspec.reading.profile_detection import detect_profile_at
from toyspec.reading.records import Record, RecordFeed
from toyspec.reading.stream_files import locate_stream

if TYPE_CHECKING:
    from toyspec.read_reports import Fragment

Until = Literal["run_end", "forever"]
"""Whether following stops after the end of the run, or goes on for whatever comes to the path."""

EventKind = Literal["gap", "rotated", "truncated", "replaced", "gone", "ended"]
"""What happened.

- ``gap``: a committed line is unreadable and was skipped.
- ``rotated``: another file is at the path; the old one was renamed, and read to its end. Records start anew.
- ``replaced``: another file is at the path and the old one is deleted, or the file has other bytes where it was
  read: edited in place, or cut and written anew. Records start anew.
- ``truncated``: the file is shorter than what had been committed. Records start anew.
- ``gone``: no file is at the path, and the old one was read to its end. It is read on until another one comes.
- ``ended``: the run wrote its last event.
"""

_CHUNK_BYTES = 1 << 16


class TailEvent(msgspec.Struct, frozen=True):
    """Something other than a record that happened to a followed stream."""

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
    """Name of the rule that the line breaks; empty where it is no gap."""
    message: str = ""
    """The fact about a gap; log text in it is escaped and cut."""


Items: TypeAlias = Generator[Record | TailEvent, None, None]


class Polling(msgspec.Struct, frozen=True, kw_only=True):
    """When a follower looks, and when it stops looking. See ``follow``."""

    poll_seconds: float
    idle_seconds: float | None
    stop: Callable[[], bool]
    sleep: Callable[[float], object]
    clock: Callable[[], float]


class Follower:
    """The records and events of one path, as they come. See ``follow``.

    Close it, by ``close`` or as a context manager, when it is not read to its end.
    """

    def __init__(self, tail: _Tail, polling: Polling) -> None:
        # The tail does not know its follower: without a cycle, one that is dropped closes its file at once.
        self._tail = tail
        self._items = tail.run(polling)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record | TailEvent:
        return next(self._items)

    @property
    def profile(self) -> Profile | None:
        """The format of the stream as far as it is known now; None where it is none of toyspec's."""
        return self._tail.feed.profile

    @property
    def fragment(self) -> Fragment | None:
        """The bytes after the last committed line as they stand now; None when there are none."""
        return self._tail.feed.fragment()

    @property
    def trouble(self) -> Exception | None:
        """Why the last look at the path failed, None when it did not; following looks again."""
        return self._tail.trouble

    def close(self) -> None:
        """Stop following and let go of the file."""
        self._items.close()
        self._tail.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def follow(  # noqa: PLR0913
    path: str | os.PathLike[str],
    *,
    until: Until = "run_end",
    profile: Profile | None = None,
    poll_seconds: float = 0.25,
    idle_seconds: float | None = None,
    stop: Callable[[], bool] | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Follower:
    """Return a follower of the stream at *path*, from its first record on.

    *path* is a stream or a run directory, which need not exist yet. Each record is given once, when its LF is
    there. Damage is an event, no exception; a follower never repairs.

    Following ends after the run's last event (*until* ``"run_end"``), when nothing came for *idle_seconds* by
    *clock*, or as soon as *stop* returns True. Between looks it calls *sleep* with *poll_seconds*; a sleep that
    a file watcher cuts short only makes the next look earlier. A look at an idle stream is one ``stat``.

    Iterating raises StreamUnreadableError when what is at the path cannot be followed: no permission, no
    regular file. Once a file was opened, such trouble is waited out; see ``Follower.trouble``.
    """
    for name, value, allowed in (("until", until, get_args(Until)), ("profile", profile, (None, *get_args(Profile)))):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, it must be one of {', '.join(filter(None, allowed))}")
    if poll_seconds < 0:
        raise ValueError(f"poll_seconds is {poll_seconds}, it must not be negative")
    polling = Polling(
        poll_seconds=poll_seconds, idle_seconds=idle_seconds, stop=stop or _never, sleep=sleep, clock=clock
    )
    feed = partial(RecordFeed, profile=profile, max_line_bytes=max_line_bytes)
    return Follower(_Tail(os.fspath(path), until, feed), polling)


def _never() -> bool:
    return False


class _Tail:
    """What is at the path, and how far it was read."""

    def __init__(self, path: str, until: Until, feed: partial[RecordFeed]) -> None:
        self._path = path
        self._until = until
        self._new_feed = feed
        self._file: LiveFile | None = None
        self._stop: Callable[[], bool] = _never
        self._finished = False
        self._is_gone = False
        self.trouble: Exception | None = None
        self._begin_stream(path)

    def _begin_stream(self, path: str) -> None:
        self.feed = self._new_feed(detect=partial(detect_profile_at, path))
        self._seen: tuple[int, int] | None = None
        # NUL bytes may stand in for data that a network file system has not got yet: they count when seen twice.
        self._doubts = False
        self._trusted = 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def run(self, polling: Polling) -> Items:
        """Look at the path again and again, and yield what is new."""
        self._stop = polling.stop
        last = polling.clock()
        try:
            while not self._finished and not polling.stop():
                for item in self._look():
                    yield item
                    last = polling.clock()
                is_idle = polling.idle_seconds is not None and polling.clock() - last >= polling.idle_seconds
                if self._finished or (is_idle and not self._doubts):
                    return
                polling.sleep(polling.poll_seconds)
        finally:
            self.close()

    def _look(self) -> Items:
        """Yield what is new since the last look; an input error waits for the next one."""
        try:
            yield from self._look_closely()
        except OSError as error:
            self.trouble = error
            self._seen = None
            self._doubts = False

    def _look_closely(self) -> Items:
        file = self._file
        if file is None:
            yield from self._begin()
            return
        try:
            status = os.stat(file.path)
        except (FileNotFoundError, NotADirectoryError):
            yield from self._look_without_path(file)
            return
        if file.is_at_path(status):
            self._is_gone = False
            yield from self._go_on(file, status)
        else:
            yield from self._change_over(file)

    def _begin(self) -> Items:
        try:
            stream, _ = locate_stream(self._path)
            self._file = file = LiveFile(stream)
        except StreamMissingError:
            return
        self._begin_stream(stream)
        yield from self._go_on(file, file.status())

    def _look_without_path(self, file: LiveFile) -> Items:
        """Yield what is new in a file that lost its name: deleted, or renamed with another one to come."""
        yield from self._go_on(file, file.status())
        if not (self._is_gone or self._doubts or self._finished):
            self._is_gone = True
            yield self._event("gone")

    def _change_over(self, old: LiveFile) -> Items:
        """Yield the rest of *old*, then what is in the file that took its place."""
        try:
            new = LiveFile(old.path)
        except StreamMissingError:
            return
        except StreamUnreadableError as error:
            self.trouble = error
            return
        content = old.content()
        if content == "uncommitted-changed":
            self._take_back(old)
        if content in ("same", "uncommitted-changed"):
            yield from self._drain(old, nul="trust")
        if self._finished:
            return
        event = self._event("rotated" if old.status().st_nlink else "replaced")
        old.close()
        self._file = new
        self._is_gone = False
        self._begin_stream(new.path)
        yield event
        yield from self._go_on(new, new.status())

    def _go_on(self, file: LiveFile, status: os.stat_result) -> Items:
        """Yield what is new in *file*, whose status is *status*."""
        seen = (status.st_size, status.st_mtime_ns)
        if seen == self._seen and not self._doubts:
            return
        if self._doubts or self.trouble is not None:
            file.reopen()
            self._doubts = False
        content = file.content()
        if content in ("truncated", "replaced"):
            event = self._event(content)
            file.restart()
            self._begin_stream(file.path)
            yield event
        elif content == "uncommitted-changed":
            self._take_back(file)
        self._seen = seen
        self.trouble = None
        yield from self._drain(file, nul="doubt")

    def _take_back(self, file: LiveFile) -> None:
        """Forget a fragment that a repair cut off, or that was written anew."""
        file.drop_uncommitted()
        self.feed.drop_fragment()

    def _drain(self, file: LiveFile, *, nul: Literal["trust", "doubt"]) -> Items:
        """Yield what is in *file* from its position on."""
        while data := file.peek(_CHUNK_BYTES):
            # A fragment may have been cut off since it was read, and other lines been written over its place.
            if b"\n" in data and file.lost_fragment:
                if file.content() != "uncommitted-changed":
                    self._seen = None
                    return
                self._take_back(file)
                continue
            found = data.find(0, max(0, self._trusted - file.position)) if nul == "doubt" else -1
            if found >= 0:
                self._doubts = True
                self._trusted = file.status().st_size
                data = data[:found]
            file.take(data)
            for item in self.feed.feed(data):
                yield from self._give(file, item)
                if self._finished:
                    return
            self._finished = self._stop()
            if self._doubts or self._finished:
                return

    def _give(self, file: LiveFile, item: Record | Gap) -> Items:
        if isinstance(item, Gap):
            yield TailEvent("gap", file.path, item.line, item.offset, item.length, item.reason, item.message)
            return
        yield item
        if item.kind is not None and item.kind == closing_kind(item.profile):
            yield TailEvent("ended", file.path, item.line + 1, item.offset + len(item.raw) + 1)
            self._finished = self._until == "run_end"

    def _event(self, kind: EventKind) -> TailEvent:
        path = self._path if self._file is None else self._file.path
        feed = self.feed
        return TailEvent(kind, path, feed.next_line, feed.committed, feed.size - feed.committed)
