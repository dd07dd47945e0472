"""Reads the ends of streams; of a long one, without the rest: those of a run, and of its other ranks."""

from __future__ import annotations

import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from toyspec.core.errors import StreamError
from toyspec.core.files import open_file
from toyspec.core.generated.runs import LOSS_NAMES
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.attempts import Attempts, Placing
from toyspec.core.reading.log_detection import detect_profile_at
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.run_files import rank_file, ranks_beside
from toyspec.core.reading.stream_files import is_packed
from toyspec.core.runs.discovery import ranks_in
from toyspec.core.runs.run_facts import RankState
from toyspec.core.system_calls import is_locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toyspec.core.findings import Gap, Profile, State
    from toyspec.core.generated.runs import RunState
    from toyspec.core.runs.discovery import Stream


END_UNKNOWN = "end-unknown"
"""Topic of the last note of a log that was made of one whose format has no end."""

BLOCK_BYTES = 1 << 9
"""Number of bytes that are read of each end at first."""

REMOTE_BYTES = 1 << 16
"""Number of bytes that are requested of each end of an object; the first request is the whole of a small stream."""

_MOST_BYTES = 1 << 17
WHOLE_BYTES = 1 << 20
"""Streams up to this size are read completely, so that damage between the ends is found."""
_GROWTH = 8


class Ends(NamedTuple):
    """What the two ends of one stream have, or all of a short one."""

    head: list[Record]
    """The records of the first bytes, or all: those that no attempt in the ends supersedes, numbered from 1."""
    tail: list[Record]
    """Those of the last bytes; none where the head is all."""
    attempts: Attempts
    """What all of them say of the phase of the run and its resumptions."""
    state: State
    """The state of the stream, as far as the ends tell."""
    number: int | None
    """Number of records; None where not all were read."""
    profile: Profile | None
    """The format of the stream; None where it is none of toyspec's."""
    size: int
    """Number of bytes of the stream."""


def ends_at(path: str, checked_bytes: int = WHOLE_BYTES) -> Ends | None:
    """Return the ends of the stream at *path*; a stream up to *checked_bytes* is read completely.

    Return None where they do not tell what the run comes to, and for gzip data and a stream that cannot be read:
    reading all of it then does, or says why.
    """
    try:
        if is_address(path):
            return _remote_ends(path)
        with open_file(path).detach() as file:
            descriptor = file.fileno()
            size = os.fstat(descriptor).st_size
            return _read_ends(path, partial(_read_at, descriptor), size, checked_bytes, (BLOCK_BYTES, _MOST_BYTES))
    except OSError:
        return None


def is_end_unknown(path: str) -> bool:
    """Return whether the stream *path* ends with the note of an import that how the run ended is not known."""
    if is_address(path):
        return False
    try:
        with open_file(path).detach() as file:
            size = os.fstat(file.fileno()).st_size
            tail = _read_at(file.fileno(), max(0, size - BLOCK_BYTES), BLOCK_BYTES)
    except OSError:
        return False
    last = records_among(RecordFeed(profile="toy/v1").feed(tail))[-1:]
    return any(record.kind == "note" and record.get("topic") == END_UNKNOWN for record in last)


def records_among(found: Iterable[Record | Gap]) -> list[Record]:
    """Return the records among *found*."""
    return [item for item in found if isinstance(item, Record)]


def _read_ends(
    path: str, read_at: Callable[[int, int], bytes], size: int, whole: int, blocks: tuple[int, int]
) -> Ends | None:
    """Return the ends of a stream of *size* bytes, all of it up to *whole*; None where they do not tell.

    *blocks* are the numbers of bytes that are read of each end at first, and at most.
    """
    block, most = blocks
    while size > whole and 2 * block < size:
        head, tail = read_at(0, block), read_at(size - block, block)
        block *= _GROWTH
        # The first line of the end may have begun before it.
        ends, is_telling = _ends(path, head, tail[tail.find(b"\n") + 1 :] if b"\n" in tail else b"", size)
        if is_telling or block > most:
            return ends
    data = read_at(0, size)
    return None if is_packed(data) else _ends(path, data, None, size)[0]


def _ends(path: str, head: bytes, tail: bytes | None, size: int) -> tuple[Ends | None, bool]:
    """Return the ends with the lines of *head* and *tail*, and whether the tail has a loss of the run.

    There is no tail where the head is all. None where an end has no record, where the manifest beside the stream
    decided its profile, and where a resumption in the tail goes back to a step that was not read.
    """
    feed = RecordFeed(detect=partial(detect_profile_at, path))
    first, last = records_among(feed.feed(head)), []
    profile, is_damaged = feed.profile, feed.gap_bytes > 0
    state, number = feed.state, feed.records if tail is None else None
    if tail is not None and first:
        feed = RecordFeed(profile=profile)
        last = records_among(feed.feed(tail))
        state = "damaged" if is_damaged else feed.state
    attempts, at = Attempts(), len(first)
    placing = Placing(attempts)
    for line, record in enumerate([*first, *last], 1):
        # Lines of the tail were counted from its start.
        record.line = line
        attempts.learn(record)
        placing.take(record)
    is_doubtful = profile == "kaun/v1" and bool(first) and first[0].get("type") != "scalar"
    if not first or (tail is not None and not last) or is_doubtful:
        return None, False
    first, last = list(attempts.latest(first)), list(attempts.latest(last))
    goes_back = tail is not None and attempts.last_step_kept(at) is not None
    if goes_back and not any(_is_own_step(record, attempts) for record in last):
        return None, False
    is_telling = any(_has_loss(record, attempts) for record in reversed(last))
    return Ends(first, last, attempts, state, number, profile, size), is_telling


def _has_loss(record: Record, attempts: Attempts) -> bool:
    if record.profile == "kaun/v1":
        return record.get("tag") in LOSS_NAMES
    return "loss" in record.value and _is_own_step(record, attempts)


def _is_own_step(record: Record, attempts: Attempts) -> bool:
    return record.is_step and attempts.is_of_run(record)


def _remote_ends(address: str) -> Ends | None:
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


def states_of_other_ranks(stream: str, found: Stream | None = None) -> list[RankState]:
    """Return the states of the logs of ranks from 1 on, of the run with *stream*, which a search may have *found*.

    A log that cannot be read is damaged, and of a long one only the ends are read. A store is not listed for them: they
    are those that the search has seen.
    """
    beside = {} if found is None else ranks_in(found.identity)
    if is_address(stream):
        directory = stream.rpartition("/")[0]
        places = {rank: (path_in(directory, rank_file(rank)), version) for rank, version in beside.items()}
        return [
            RankState(rank, _known_state(path, version) if version else _read_state(path))
            for rank, (path, version) in places.items()
        ]
    if found is not None and found.knows_beside and not beside:
        return []
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
    ends = ends_at(path)
    if ends is not None and ends.profile is not None:
        return ends.state
    try:
        with read(path, mode="salvage") as reading:
            for _ in reading:
                pass
            return reading.report.state
    except StreamError:
        return "damaged"
