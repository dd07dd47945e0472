"""One run as a file or object that may grow: reads what is new and keeps summary and curves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toyspec.engine import native
from toyspec.errors import StreamUnreadableError
from toyspec.reading.followed_feed import FollowedFeed
from toyspec.reading.live_file import AnyLiveFile, open_live
from toyspec.reading.log_detection import DialectChoice
from toyspec.reading.profile_detection import detect_profile_at
from toyspec.reading.rows import RowFeed
from toyspec.reading.stream_files import GZIP_MAGIC, open_source
from toyspec.runs.extents import Extent
from toyspec.view.identities import identity_of
from toyspec.view.scans import Scan
from toyspec.view.step_blocks import StepBlockFeed

if TYPE_CHECKING:
    from toyspec.read_reports import Fragment
    from toyspec.reading.attempts import Attempts
    from toyspec.view.identities import Identity
    from toyspec.view.scans import Wanted

_CHUNK_BYTES = 1 << 18
_MOST_VERSIONS = 8
# What each of several threads reads at once.
_THREAD_BYTES = 1 << 20


class RunFile:
    """The stream of a run, as far as it was read. It keeps the file open until ``close``."""

    def __init__(
        self, path: str, dialect: DialectChoice | None = None, *, wanted: Wanted | None = None, threads: int = 1
    ) -> None:
        """Open the stream at *path*; raise StreamError. *wanted* chooses metrics by name.

        A stream of a profile may be read on *threads* threads.
        """
        self.path = path
        self._dialect = dialect or DialectChoice()
        self._wanted = wanted
        self._threads = threads
        self._chunk_bytes = _CHUNK_BYTES if threads == 1 or native() is None else threads * _THREAD_BYTES
        self._file: AnyLiveFile = open_live(path)
        self._is_compressed = self._file.peek(len(GZIP_MAGIC)) == GZIP_MAGIC
        self._identity = identity_of(self._file.status())
        self._begin(None)

    def _begin(self, attempts: Attempts | None) -> None:
        self.scan = Scan(self.path, attempts=attempts, wanted=self._wanted)
        detect = partial(detect_profile_at, self.path)
        plain = partial(StepBlockFeed, detect=detect, threads=self._threads)
        self._feed = FollowedFeed(self._dialect, plain, self.path, detect)
        self._counted = 0

    @property
    def size(self) -> int:
        """Number of bytes that were read."""
        return self._file.position

    def read(self) -> bool:
        """Read what is new; return whether anything was. A file that was replaced or cut is read from its start."""
        if not self._is_same():
            self._file.close()
            self._file = open_live(self.path)
            self._begin(None)
        if self._is_compressed:
            return self._read_compressed()
        content = self._file.content()
        if content in ("truncated", "replaced"):
            self._file.restart()
            self._begin(None)
        elif content == "uncommitted-changed":
            self._file.drop_uncommitted()
            self._feed.drop_fragment()
        before = self._file.position
        # What is written while the file is read must make it another one.
        self._identity = identity_of(self._file.status())
        self._drain()
        if self.scan.needs_second:
            attempts = self.scan.summary.attempts
            self._file.restart()
            self._begin(attempts)
            self._drain()
        self._describe()
        return self._file.position != before

    def read_whole(self) -> None:
        """Read all of it, also of an object that is replaced by a longer one meanwhile.

        Raises StreamUnreadableError where that goes on and on.
        """
        for _ in range(_MOST_VERSIONS):
            self.read()
            if not self._file.is_outdated:
                return
        raise StreamUnreadableError(self.path, "it changed again and again while it was read; read it again")

    def _is_same(self) -> bool:
        try:
            return self._file.is_at_path(self._file.status_at_path())
        except OSError as error:
            raise StreamUnreadableError(self.path, str(error.strerror or error)) from error

    def _drain(self) -> None:
        resumes = len(self.scan.resumes)
        while data := self._file.peek(self._chunk_bytes):
            self._file.take(data)
            self.scan.take(self._feed.feed(data))
        if len(self.scan.resumes) > resumes and not self.scan.needs_second and resumes:
            # What a new resumption supersedes was taken in as the latest attempt.
            self._file.restart()
            self._begin(None)
            self._drain()

    def _read_compressed(self) -> bool:
        status = self._file.status()
        if status.st_size == self._counted:
            return False
        if self._counted:
            self._begin(None)
        for _ in range(2):
            self._counted, self._identity = status.st_size, identity_of(status)
            source = open_source(self.path, special="refuse")
            try:
                while data := source.read(_CHUNK_BYTES):
                    self.scan.take(self._feed.feed(data))
            except OSError as error:
                raise StreamUnreadableError(self.path, str(error)) from error
            finally:
                source.close()
            if not self.scan.needs_second:
                break
            self._begin(self.scan.summary.attempts)
        self._describe()
        return True

    def _describe(self) -> None:
        feed = self._feed.feed_now
        summary = self.scan.summary
        summary.__dict__.pop("is_running", None)
        if isinstance(feed, RowFeed):
            summary.dialect = feed.read_as.use
        size = self._counted if self._is_compressed else feed.size
        summary.describe(feed.profile, Extent(feed.state, feed.records, size))

    @property
    def is_known(self) -> bool:
        """True if the file follows a profile or a dialect."""
        feed = self._feed.feed_now
        return feed.profile is not None or isinstance(feed, RowFeed)

    @property
    def committed(self) -> int:
        """Byte offset after the last LF."""
        return self._feed.feed_now.committed

    @property
    def gap_bytes(self) -> int:
        """Number of bytes in unreadable lines."""
        return self._feed.feed_now.gap_bytes

    @property
    def fragment(self) -> Fragment | None:
        """The bytes after the last LF."""
        return self._feed.feed_now.fragment()

    def identity(self) -> Identity:
        """Return the identity of the file or object when it was read."""
        return self._identity

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        self._file.close()
