"""One run as a file or object that may grow: reads what is new, keeps summary and curves, and gives out its curves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from toyspec.core.engine import native
from toyspec.core.errors import StreamUnreadableError
from toyspec.core.reading.follower import FollowedFeed
from toyspec.core.reading.live_stream import LiveStream
from toyspec.core.reading.log_detection import DialectChoice, detect_profile_at
from toyspec.core.reading.number_blocks import StepBlockFeed
from toyspec.core.reading.records import RecordFeed
from toyspec.core.runs.summary import Extent
from toyspec.core.system_calls import cause_of
from toyspec.view.identities import identity_of
from toyspec.view.scans import Scan

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterator

    from toyspec.core.reading.attempts import Attempts
    from toyspec.view.buckets import Buckets
    from toyspec.view.identities import Identity
    from toyspec.view.scans import Wanted

_CHUNK_BYTES = 1 << 18
_MOST_VERSIONS = 8
# No part of a stream that is read at once has as many lines.
_MOST_POINTS = 1 << 20
# What each of several threads reads at once.
_THREAD_BYTES = 1 << 20


class ScannedRun:
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
        chunk_bytes = _CHUNK_BYTES if threads == 1 or native() is None else threads * _THREAD_BYTES
        self._stream = LiveStream(lambda: path, chunk_bytes=chunk_bytes, nul="trust")
        self._stream.open()
        self._begin(None)

    def _begin(self, attempts: Attempts | None) -> None:
        self.scan = Scan(self.path, attempts=attempts, wanted=self._wanted)
        detect = partial(detect_profile_at, self.path)
        plain = partial(StepBlockFeed, detect=detect, threads=self._threads)
        self._feed = FollowedFeed(self._dialect, plain, self.path, detect)

    def read(self) -> bool:
        """Read what is new; return whether anything was. A file that was replaced or cut is read from its start.

        Raises StreamUnreadableError where it is gone or cannot be read.
        """
        is_new = False
        resumes = len(self.scan.resumes)
        for change in self._stream.poll():
            is_new = True
            if isinstance(change, bytes):
                self.scan.take(self._feed.feed(change))
            elif change == "uncommitted-changed":
                self._feed.drop_fragment()
            elif change != "gone":
                self._begin(None)
                resumes = 0
        self._demand_whole()
        if resumes and len(self.scan.resumes) > resumes and not self.scan.needs_second:
            # What a new resumption supersedes was taken in as the latest attempt.
            self._read_again(None)
        if self.scan.needs_second:
            self._read_again(self.scan.summary.attempts)
        self._describe()
        return is_new

    def _demand_whole(self) -> None:
        error = self._stream.trouble
        if self._stream.is_gone:
            raise StreamUnreadableError(self.path, "it was deleted or moved; read it again when it is back")
        if isinstance(error, OSError):
            raise StreamUnreadableError(self.path, cause_of(error)) from error
        if error is not None:
            raise error

    def _read_again(self, attempts: Attempts | None) -> None:
        self._begin(attempts)
        for data in self._stream.again():
            self.scan.take(self._feed.feed(data))

    def read_whole(self) -> None:
        """Read all of it, also of an object that is replaced by a longer one meanwhile.

        Raises StreamUnreadableError where that goes on and on.
        """
        for _ in range(_MOST_VERSIONS):
            self.read()
            if self._stream.is_settled:
                return
        raise StreamUnreadableError(self.path, "it changed again and again while it was read; read it again")

    def points(self, names: Collection[str]) -> Iterator[tuple[str, Buckets]]:
        """Yield the points of the metrics *names* in the order of the stream, each with its metric, many at once.

        They are those of the latest attempt, as buckets of one point each. The stream, of which everything was read, is
        read once more. Raises OSError.
        """
        detect = partial(detect_profile_at, self.path)
        feed = FollowedFeed(self._dialect, partial(StepBlockFeed, detect=detect), self.path, detect)
        scan = Scan(self.path, attempts=self.scan.summary.attempts, wanted=names.__contains__, most=_MOST_POINTS)
        for data in self._stream.again():
            scan.take(feed.feed(data))
            for name, curve in scan.latest.items():
                yield name, curve.buckets()
            scan.latest.clear()

    def _describe(self) -> None:
        feed = self._feed.feed_now
        summary = self.scan.summary
        if not isinstance(feed, RecordFeed):
            summary.dialect = feed.use
        size = self._stream.size if self._stream.is_compressed else feed.size
        summary.describe(feed.profile, Extent(feed.state, feed.records, size))

    @property
    def is_known(self) -> bool:
        """True if the file follows a profile or a dialect."""
        feed = self._feed.feed_now
        return feed.profile is not None or not isinstance(feed, RecordFeed)

    def identity(self) -> Identity:
        """Return the identity of the file or object when it was read."""
        return identity_of(self._stream.status)

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        self._stream.close()


class LiveCurves:
    """The curves in memory; *lock* keeps others from reading the stream meanwhile."""

    def __init__(self, file: ScannedRun, lock: threading.Lock) -> None:
        self._scan = file.scan
        self._lock = lock
        self.identity = file.identity()
        self.gaps: list[dict[str, Any]] = self._scan.gaps
        self.resumes: list[dict[str, Any]] = self._scan.resumes
        self.alerts: list[dict[str, Any]] = self._scan.alerts
        self.attempts = self._scan.summary.attempts
        self.profile = self._scan.summary.profile

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return list(self._scan.latest)

    @property
    def best(self) -> dict[str, tuple[int, float]]:
        """Step and value of the best point of each metric that has a goal."""
        summary = self._scan.summary
        found = {name: summary.best(name) for name in list(summary.series)}
        return {name: pair for name, pair in found.items() if pair is not None}

    def latest(self, name: str, most: int | None = None) -> Buckets | None:  # noqa: ARG002 - the stored ones use it
        """Return the curve of a metric as the latest attempt made it; None if the run does not have it."""
        with self._lock:
            curve = self._scan.latest.get(name)
            return None if curve is None else curve.buckets().copy()

    def first(self, name: str) -> tuple[float, float, float] | None:
        """Return step, time and epoch of the first point of a metric, NaN where unknown; None without the metric."""
        with self._lock:
            curve = self._scan.latest.get(name)
            return None if curve is None else curve.first_places

    def abandoned(self, name: str) -> list[Buckets]:
        """Return what later attempts did again, a curve for each stretch."""
        with self._lock:
            return [stretch[name].buckets().copy() for stretch in self._scan.abandoned if name in stretch]
