"""A feed for a live file, which decides how the file is read as soon as it has a whole line."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from toyspec.core.format.profiles import EVENTS_FILE, METRICS_FILE, stream_name
from toyspec.core.reading import readers
from toyspec.core.reading.log_detection import CONSOLE_BYTES, first_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.core.findings import DialectUse, Profile
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.reading.readers import LogFeed, OpenedLog
    from toyspec.core.reading.records import RecordFeed

AnyFeed: TypeAlias = "RecordFeed | LogFeed"


def followed_feed(
    choice: DialectChoice | None, plain: partial[RecordFeed], path: str, detect: Callable[..., Profile | None]
) -> FollowedFeed:
    """Return a feed for the file at *path*, which is a profile of toyspec or a dialect of *choice*."""
    return FollowedFeed(choice, partial(plain, detect=detect), path, detect)


class FollowedFeed:
    """A ``RecordFeed`` until the first lines show that the file is the log of another program."""

    def __init__(
        self,
        choice: DialectChoice | None,
        plain: Callable[..., RecordFeed],
        path: str,
        detect: Callable[..., Profile | None],
    ) -> None:
        self._choice = choice
        self._path = path
        self._detect = detect
        name = stream_name(os.path.basename(path))
        self._may_be_console = choice is not None and choice.name == "auto" and name not in (EVENTS_FILE, METRICS_FILE)
        is_open = choice is not None and (choice.name is not None or choice.may_be_own)
        self._held: bytes | None = b"" if is_open else None
        # What the lines of a text are if no metrics of a program follow; None before and after that is the question.
        self._gaps: list[Any] | None = None
        self._plain = plain
        self.feed_now: AnyFeed = plain()
        """The feed that makes the records now."""
        self.use: DialectUse | None = None
        """How the log of another program is read; whether the run ended is left open, since more may follow."""

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records or rows that *chunk* commits, and a gap for each unreadable line."""
        if self._held is None:
            return self.feed_now.feed(chunk)
        self._held += chunk
        if b"\n" not in self._held:
            # A document needs no LF at its end, and may never get one.
            if self._held.rstrip()[-1:] in (b"}", b"]") and (log := self._document(self._held)) is not None:
                return self._rows(log)
            self.feed_now.feed(chunk)
            return []
        if self._gaps is not None and self._goes_on(self._held, len(chunk)):
            self._gaps += self.feed_now.feed(chunk)
            return []
        return self._decided(self._held, chunk)

    def _decided(self, held: bytes, chunk: bytes) -> list[Any]:
        """Return what *chunk*, the end of *held*, commits, now that it is known how the file is read."""
        assert self._choice is not None
        gaps, self._gaps = self._gaps or [], None
        self._held = None
        profile = self._choice.profile_of(held, self._path)
        if profile is not None:
            self.feed_now = self._plain(profile=profile)
            return self.feed_now.feed(held)
        log = self._choice.choose(held, self._detect, path=self._path)
        if log is None:
            gaps += self.feed_now.feed(chunk)
            if not (self._may_be_console and _is_text(held)):
                return gaps
            self._held, self._gaps = held, gaps
            return []
        self._held = held
        return self._rows(log)

    def _document(self, held: bytes) -> OpenedLog | None:
        """Return how to read *held* if it is a document of another program."""
        assert self._choice is not None
        if self._choice.profile_of(held, self._path) is not None:
            return None
        log = self._choice.choose(held, self._detect, path=self._path)
        return log if log is not None and log.is_document else None

    def _rows(self, log: OpenedLog) -> list[Any]:
        """Return the rows of what is held, and of all that follows from now on."""
        held, self._held = self._held or b"", None
        self.use = log.use
        self.feed_now = log.feed(max_line_bytes=self.feed_now.max_line_bytes)
        return self.feed_now.feed(held)

    def _goes_on(self, held: bytes, size: int) -> bool:
        """Return whether the last *size* bytes of *held* are more text, without what a program is known by."""
        lines = held[held.rfind(b"\n", 0, len(held) - size) + 1 :]
        assert self._choice is not None
        return len(held) < CONSOLE_BYTES and _is_text(lines) and readers.dialects().may_go_on(lines, self._choice)

    def at_end(self) -> list[Any]:
        """Return the gaps that were held back since text may be the output of a program; call it at the end."""
        gaps, self._gaps = self._gaps or [], None
        return gaps

    @property
    def is_by_lines(self) -> bool:
        """True once it is known how the file is read, and that each line is read by itself."""
        return self._held is None and self.feed_now.is_by_lines

    def skip(self, size: int) -> None:
        """Pass over *size* bytes of whole lines, which count as none; call it after an LF."""
        self.feed_now.skip(size)

    def drop_fragment(self) -> None:
        """Drop the bytes after the last LF, as if they had not been fed."""
        self.feed_now.drop_fragment()
        if self._held is not None:
            self._held = self._held[: self._held.rfind(b"\n") + 1]


def _is_text(data: bytes) -> bool:
    """Return whether *data* may be what a program prints before its first metrics."""
    is_short = len(data) < CONSOLE_BYTES
    return is_short and b"\0" not in data and data.lstrip()[:1] not in (b"{", b"[") and first_object(data) is None
