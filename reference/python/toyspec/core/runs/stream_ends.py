"""Reads the ends of streams; of a long one, without the rest: those of a run, and of its other ranks."""

from __future__ import annotations

import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

from toyspec.core.errors import StreamError
from toyspec.core.files import descriptor_of
from toyspec.core.generated.runs import LOSS_NAMES
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.run_files import rank_file, ranks_beside
from toyspec.core.reading.stream_files import GZIP_MAGIC
from toyspec.core.runs.discovery import ranks_in
from toyspec.core.runs.run_facts import RankState
from toyspec.core.system_calls import is_locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toyspec.core.findings import Gap
    from toyspec.core.generated.runs import RunState
    from toyspec.core.reading.log_detection import DialectChoice


BLOCK_BYTES = 1 << 9
"""Number of bytes that are read of each end at first."""

REMOTE_BYTES = 1 << 16
"""Number of bytes that are requested of each end of an object; the first request is the whole of a small stream."""

_MOST_BYTES = 1 << 17
WHOLE_BYTES = 1 << 20
"""Streams up to this size are read completely, so that damage between the ends is found."""
_GROWTH = 8
# The kinds of records that change the meaning of others.
_SHAPING = frozenset(["run_start", "run_resume"])


def ends_at(path: str, checked_bytes: int = WHOLE_BYTES) -> tuple[Ends, int] | None:
    """Return the ends of the stream at *path* and its size; a stream up to *checked_bytes* is read completely.

    Return None where they hold no record, for gzip data, and where the stream cannot be read: reading all of it then
    says why.
    """
    try:
        if is_address(path):
            return _remote_ends(path)
        descriptor = descriptor_of(path)
        try:
            size = os.fstat(descriptor).st_size
            return _read_ends(path, partial(_read_at, descriptor), size, checked_bytes, (BLOCK_BYTES, _MOST_BYTES))
        finally:
            os.close(descriptor)
    except OSError:
        return None


class Ends:
    """The two ends of one stream, as records; there is no tail where the head is all."""

    def __init__(self, path: str, head: bytes, tail: bytes | None = None) -> None:
        self._path = path
        feed = RecordFeed(detect=partial(detect_profile_at, path))
        self.head = records_among(feed.feed(head))
        """Its records."""
        self.tail: list[Record] = []
        """The records of the last bytes that were read."""
        self.state = feed.state
        """The state of the stream, as far as the ends tell."""
        self.count: int | None = feed.records
        """Number of records; None where not all were read."""
        self.profile = feed.profile
        """The format of the stream; None where it is none of toyspec's."""
        self._phases = Attempts()
        for record in self.head:
            if record.kind in _SHAPING:
                self._phases.learn(record)
        if tail is not None and self.head:
            is_damaged, feed = feed.gap_bytes > 0, RecordFeed(profile=self.profile)
            # The first line may have begun before.
            self.tail = records_among(feed.feed(tail[tail.find(b"\n") + 1 :])) if b"\n" in tail else []
            self.state, self.count = "damaged" if is_damaged else feed.state, None

    @property
    def is_doubtful(self) -> bool:
        """True when the manifest beside the stream decided its profile, not its first record."""
        return self.profile == "kaun/v1" and bool(self.head) and self.head[0].get("type") != "scalar"

    def may_be_of(self, dialect: DialectChoice) -> bool:
        """Return whether the stream is read as what the user named, or is of a profile of the user."""
        if dialect.is_named:
            return True
        return bool(self.head) and dialect.profile_of(self.head[0].raw + b"\n", self._path) is not None

    def tells(self) -> Literal["enough", "too little", "nothing"]:
        """Return whether the tail tells where the run stands, or holds no record."""
        if not self._is_resumed():
            telling = any(map(self._tells_loss, reversed(self.tail)))
            return "enough" if telling else "too little" if self.tail else "nothing"
        # What goes on from a step that was not read says too little, and no more of the end may say it.
        behind = [record for record in self._latest(Attempts()) if record.line > len(self.head)]
        return "enough" if any(map(self._tells_loss, behind)) else "nothing"

    def records(self, attempts: Attempts) -> list[Record]:
        """Return the records that count; *attempts* learns of all.

        Of a run that was resumed, these are those that no later attempt supersedes; of another one, those up to the
        first step, ends and settings, and those from the last step on.
        """
        records = self._latest(attempts)
        if self._is_resumed() or self.profile == "kaun/v1":
            return records
        last = next((at for at in range(len(records) - 1, -1, -1) if self._tells_loss(records[at])), 0)
        first = next((at for at in range(last) if self._is_step(records[at])), last)
        between = records[first + 1 : last]
        said = [record for record in between if record.end is not None or record.goes_on or record.changed_config]
        return [*records[: first + 1], *said, *records[max(first + 1, last) :]]

    def _is_resumed(self) -> bool:
        return bool(self._phases) or any(record.kind == "run_resume" for record in self.tail)

    def _latest(self, attempts: Attempts) -> list[Record]:
        records = [*self.head, *self.tail]
        for line, record in enumerate(records, 1):
            # Lines of the tail were counted from its start.
            record.line = line
            attempts.learn(record)
        return list(attempts.latest(records))

    def _tells_loss(self, record: Record) -> bool:
        if record.profile == "kaun/v1":
            return record.get("tag") in LOSS_NAMES
        return "loss" in record.value and self._is_step(record)

    def _is_step(self, record: Record) -> bool:
        return self._phases.is_own_step(record)


def records_among(found: Iterable[Record | Gap]) -> list[Record]:
    """Return the records among *found*."""
    return [item for item in found if isinstance(item, Record)]


def _read_ends(
    path: str, read_at: Callable[[int, int], bytes], size: int, whole: int, blocks: tuple[int, int]
) -> tuple[Ends, int] | None:
    """Return the ends of a stream of *size* bytes, all of it up to *whole*; None where they do not tell.

    *blocks* are the numbers of bytes that are read of each end at first, and at most.
    """
    block, most = blocks
    while size > whole and 2 * block < size:
        ends = Ends(path, read_at(0, block), read_at(size - block, block))
        found = ends.tells()
        block *= _GROWTH
        if found == "enough" or block > most:
            return None if found == "nothing" else (ends, size)
    data = read_at(0, size)
    return None if data.startswith(GZIP_MAGIC) else (Ends(path, data), size)


def _remote_ends(address: str) -> tuple[Ends, int] | None:
    # Imported with the first address: start-up time counts.
    from toyspec.core.places.place import place_of

    place = place_of(address)
    head, entry = place.read_range(address, 0, REMOTE_BYTES, None)

    def read_at(offset: int, size: int) -> bytes:
        held = head[offset : offset + size]
        missing = size - len(held)
        if not missing:
            return held
        return held + place.read_range(address, offset + len(held), missing, entry.identity).data

    return _read_ends(address, read_at, entry.size, len(head), (REMOTE_BYTES, REMOTE_BYTES))


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def states_of_other_ranks(stream: str, identity: str = "") -> list[RankState]:
    """Return the states of the logs of ranks from 1 on, of the run with *stream*.

    A log that cannot be read is damaged, and of a long one only the ends are read. A store is not listed for them: they
    are those in the *identity* with which a search has found the stream.
    """
    if is_address(stream):
        directory = stream.rpartition("/")[0]
        found = ranks_in(identity).items()
        places = {rank: (path_in(directory, rank_file(rank)), version) for rank, version in found}
        return [
            RankState(rank, _known_state(path, version) if version else _read_state(path))
            for rank, (path, version) in places.items()
        ]
    return [RankState(rank, _state_at(path)) for rank, path in ranks_beside(stream).items()]


def _state_at(path: str) -> RunState:
    try:
        status = os.stat(path)
    except OSError:
        return "damaged"
    # Of what is written, nothing is read.
    if is_locked(path):
        return "running"
    return _known_state(path, status.st_ino, status.st_size, status.st_mtime_ns)


# A run that is written is listed again and again, and the logs of its other ranks change seldom after their end.
@lru_cache(maxsize=1 << 14)
def _known_state(path: str, *_: int | str) -> RunState:
    return _read_state(path)


def _read_state(path: str) -> RunState:
    ends, _ = ends_at(path) or (None, 0)
    if ends is not None and ends.profile is not None:
        return ends.state
    try:
        with read(path, mode="salvage") as reading:
            for _ in reading:
                pass
            return reading.report.state
    except StreamError:
        return "damaged"
