"""Compares logs that grow with health rules: from their bytes, or from their files."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING

from toyspec.core.places.addresses import is_address
from toyspec.core.reading.follower import followed_feed
from toyspec.core.reading.live_stream import LiveStream
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.run_files import rank_of, run_of
from toyspec.health.checking import recorded_alert
from toyspec.health.evaluator import HealthEvaluator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.health.alerts import HealthAlert
    from toyspec.health.rules import AnyRule

_CHUNK_BYTES = 1 << 18
_DISK_SECONDS = 60.0


class LiveHealth:
    """The rules, and where the log at *path* is with them. Begin again with a new one when the file is replaced."""

    def __init__(
        self,
        path: str,
        rules: Sequence[AnyRule],
        choice: DialectChoice,
        *,
        evaluator: HealthEvaluator | None = None,
        rank: int = 0,
    ) -> None:
        """Begin with the first byte; several streams of one run share an *evaluator*, each with its *rank*."""
        self._feed = followed_feed(choice, partial(RecordFeed), path, partial(detect_profile_at, path))
        self._evaluator = HealthEvaluator(rules) if evaluator is None else evaluator
        self._names = frozenset(rule.name for rule in rules)
        self._rank = rank
        self.has_ended = False
        """True while the last record is the end of the run."""
        self.resumptions = 0
        """Number of times that the run was resumed."""

    def feed(self, data: bytes) -> list[HealthAlert]:
        """Return the alerts of the records that *data*, the bytes that come next, commits.

        An alert in the log is one of them, unless its rule is one of those that are evaluated here.
        """
        found: list[HealthAlert] = []
        for item in self._feed.feed(data):
            if not isinstance(item, Record):
                continue
            found += self._evaluator.take(item, rank=self._rank)
            if item.kind == "alert" and item.profile == "toy/v1":
                recorded = recorded_alert(item)
                if recorded is not None and recorded.rule not in self._names:
                    found.append(recorded)
            self.resumptions += item.kind == "run_resume"
            self.has_ended = item.end is not None
        return found

    def drop_fragment(self) -> None:
        """Drop the bytes after the last LF, which were taken back."""
        self._feed.drop_fragment()


class WatchedRun:
    """A run that is watched from outside of its process: its stream, and those of its other ranks."""

    def __init__(self, path: str, rules: Sequence[AnyRule], choice: DialectChoice) -> None:
        """Watch the run of the stream at *path*; nothing is read yet."""
        self.path = path
        self._rules = rules
        self._choice = choice
        self._evaluator = HealthEvaluator(rules)
        self._streams: dict[int, _WatchedStream] = {}
        self._last_disk = time.monotonic()
        self.add(path)

    @property
    def name(self) -> str:
        """Name of the run: that of its directory, or of a stream that has a name of its own."""
        return os.path.basename(os.path.abspath(run_of(self.path)))

    @property
    def has_ended(self) -> bool:
        """True once the stream says that the run has ended."""
        return self._streams[min(self._streams)].live.has_ended

    @property
    def has_grown(self) -> bool:
        """True once a byte came after the first poll."""
        return any(stream.grown_bytes for stream in self._streams.values())

    def add(self, path: str) -> None:
        """Watch the stream at *path*, the first one or that of another rank."""
        rank = rank_of(os.path.basename(path)) or 0
        if rank not in self._streams:
            if self._streams:
                self._evaluator.expect_several()
            self._streams[rank] = _WatchedStream(path, self._rules, self._choice, self._evaluator, rank)

    def poll(self) -> list[HealthAlert]:
        """Return what is new: from the streams, from the time since they grew, and from the disk."""
        found: list[HealthAlert] = []
        for stream in self._streams.values():
            found += stream.poll()
        now = time.monotonic()
        if now - self._last_disk >= _DISK_SECONDS and not is_address(self.path):
            self._last_disk = now
            try:
                free = shutil.disk_usage(os.path.dirname(os.path.abspath(self.path))).free
                found += self._evaluator.disk(free_bytes=free, log_bytes=os.path.getsize(self.path), time=now)
            except OSError:
                pass
        return found

    def restart_clock(self) -> None:
        """Count the time without progress from now on: the program was started again."""
        for stream in self._streams.values():
            stream.last = time.monotonic()

    def close(self) -> None:
        """Close the files."""
        for stream in self._streams.values():
            stream.close()


class _WatchedStream:
    """One stream of a run."""

    def __init__(
        self, path: str, rules: Sequence[AnyRule], choice: DialectChoice, evaluator: HealthEvaluator, rank: int
    ) -> None:
        self._path = path
        self._begin = partial(LiveHealth, path, rules, choice, evaluator=evaluator, rank=rank)
        self._evaluator = evaluator
        self._rank = rank
        self.live = self._begin()
        self._stream = LiveStream(lambda: path, chunk_bytes=_CHUNK_BYTES)
        self.grown_bytes: int = 0
        self._is_first = True
        self.last = _last_change(path)

    def poll(self) -> list[HealthAlert]:
        found: list[HealthAlert] = []
        for change in self._stream.poll():
            if isinstance(change, bytes):
                found += self.live.feed(change)
                if not self._is_first:
                    self.grown_bytes += len(change)
                    self.last = time.monotonic()
            elif change == "uncommitted-changed":
                self.live.drop_fragment()
            elif change not in ("gone", "begun"):
                # The values of the run before still say what is usual.
                self.live = self._begin()
        self._is_first = False
        if not self.live.has_ended:
            found += self._evaluator.idle(time.monotonic() - self.last, rank=self._rank)
        return found

    def close(self) -> None:
        self._stream.close()


def _last_change(path: str) -> float:
    """Return when the file at *path* changed, by the monotonic clock."""
    now = time.monotonic()
    if is_address(path):
        return now
    try:
        return now - max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return now
