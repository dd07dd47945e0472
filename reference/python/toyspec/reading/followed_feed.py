"""A feed for a live file, which decides how the file is read as soon as it has a whole line."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.findings import Profile
    from toyspec.reading.log_detection import DialectChoice
    from toyspec.reading.records import RecordFeed
    from toyspec.reading.rows import RowFeed

AnyFeed: TypeAlias = "RecordFeed | RowFeed"


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
        is_open = choice is not None and (choice.name is not None or choice.may_be_own)
        self._held: bytes | None = b"" if is_open else None
        self._plain = plain
        self.feed_now: AnyFeed = plain()
        """The feed that makes the records now."""

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the records or rows that *chunk* commits, and a gap for each unreadable line."""
        if self._held is None:
            return self.feed_now.feed(chunk)
        self._held += chunk
        if b"\n" not in self._held:
            self.feed_now.feed(chunk)
            return []
        held, self._held = self._held, None
        assert self._choice is not None
        profile = self._choice.profile_of(held, self._path)
        if profile is not None:
            self.feed_now = self._plain(profile=profile)
            return self.feed_now.feed(held)
        read_as = self._choice.choose(held, self._detect, path=self._path)
        if read_as is None:
            return self.feed_now.feed(chunk)
        # Imported with the first log of another program: start-up time counts.
        from toyspec.reading.rows import RowFeed

        self.feed_now = RowFeed(read_as, max_line_bytes=self.feed_now.max_line_bytes)
        return self.feed_now.feed(held)

    @property
    def is_by_lines(self) -> bool:
        """True once it is known how the file is read, unless it is one document: each line is then read by itself."""
        return self._held is None and self.feed_now.is_by_lines

    def skip(self, size: int) -> None:
        """Pass over *size* bytes of whole lines, which count as none; call it after an LF."""
        self.feed_now.skip(size)

    def drop_fragment(self) -> None:
        """Drop the bytes after the last LF, as if they had not been fed."""
        self.feed_now.drop_fragment()
        if self._held is not None:
            self._held = b""
