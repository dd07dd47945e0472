"""Summarizes a run from the first and the last lines of its stream; of a long one, without reading the rest."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal

from toyspec.engine import native
from toyspec.files import descriptor_of, open_file
from toyspec.generated.limits import MAX_LINE_BYTES
from toyspec.generated.runs import LOSS_NAMES
from toyspec.places.addresses import is_address
from toyspec.reading.attempts import Attempts
from toyspec.reading.profile_detection import detect_profile_at
from toyspec.reading.records import Record, RecordFeed
from toyspec.reading.stream_files import GZIP_MAGIC
from toyspec.runs.summarizing import summarize_run
from toyspec.runs.summary import Extent, RunSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toyspec.findings import Profile
    from toyspec.read_reports import Gap
    from toyspec.reading.log_detection import DialectChoice
    from toyspec.runs.walking import Stream

BLOCK_BYTES = 1 << 9
"""Number of bytes that are read of each end at first."""

REMOTE_BYTES = 1 << 16
"""Number of bytes that are requested of each end of an object; the first request is the whole of a small stream."""

_MOST_BYTES = 1 << 17
_WHOLE_BYTES = 1 << 20
"""Streams up to this size are read completely, so that damage between the ends is found."""
_GROWTH = 8
# The kinds of records that change the meaning of others.
_SHAPING = frozenset(["run_start", "run_resume"])
_RESUMPTION = b"run_resume"
_PIECE_BYTES = 1 << 20


def summarize_ends(path: str, *, dialect: DialectChoice | None = None, checked_bytes: int | None = None) -> RunSummary:
    """Return the summary of the run whose stream is at *path*, from the ends of the stream.

    A stream up to *checked_bytes* (by default 1 MiB) is read completely. Of a larger one, more of an end is read, up to
    a limit, if it has no step with a loss; damage between the ends is not found, as ``extent`` says. Settings that a
    resumption between them changed are searched for when settings are asked for, unless the stream is in an object
    store. Streams that cannot be read from the end are passed to ``summarize_run``; raises as that does.
    """
    if is_address(path):
        return _summary_of(path, _remote_ends(path), dialect)
    try:
        descriptor = descriptor_of(path)
    except OSError:
        return summarize_run(path, dialect=dialect)
    try:
        size = os.fstat(descriptor).st_size
        whole = _WHOLE_BYTES if checked_bytes is None else checked_bytes
        ends = _read_ends(path, descriptor, size, whole)
        found = None if ends is None else (ends, size)
    except OSError:
        found = None
    finally:
        os.close(descriptor)
    return _summary_of(path, found, dialect)


def _summary_of(path: str, found: tuple[Ends, int] | None, dialect: DialectChoice | None) -> RunSummary:
    ends, size = found or (None, 0)
    # What follows no profile is the log of another program, or not a run, which the other one says.
    if (
        ends is None
        or ends.profile is None
        or (not ends.head and path.endswith(".json"))
        or ends.is_doubtful
        or (dialect is not None and ends.may_be_of(dialect))
    ):
        return summarize_run(path, dialect=dialect)
    summary = ends.summary(ends.profile, size)
    if not summary.extent.is_checked and ends.profile == "toy/v1" and not is_address(path):
        summary.find_resumptions = partial(_resumptions, path)
    return summary


def _resumptions(path: str) -> Iterator[Record]:
    """Yield the resumptions in the stream at *path*; none if it cannot be read any more."""
    rest = b""
    with suppress(OSError), open_file(path).detach() as file:
        while piece := file.read(_PIECE_BYTES):
            block = rest + piece
            end = block.rfind(b"\n") + 1
            rest = block[end:] if len(block) - end <= MAX_LINE_BYTES else b""
            at = block.find(_RESUMPTION, 0, end)
            while at >= 0:
                after = block.find(b"\n", at) + 1
                line = block[block.rfind(b"\n", 0, at) + 1 : after]
                yield from (each for each in _records(RecordFeed(profile="toy/v1").feed(line)) if each.goes_on)
                at = block.find(_RESUMPTION, after, end)


class Ends:
    """The two ends of one stream, as records; there is no tail where the head is all."""

    def __init__(self, path: str, head: bytes) -> None:
        self._path = path
        feed = RecordFeed(detect=partial(detect_profile_at, path))
        self.head = _records(feed.feed(head))
        """Its records."""
        self._tail: list[Record] = []
        self._is_damaged = feed.gap_bytes > 0
        self._state = feed.state
        self._count: int | None = feed.records
        self.profile = feed.profile
        """The format of the stream; None where it is none of toyspec's."""
        self._phases = Attempts()
        for record in self.head:
            if record.kind in _SHAPING:
                self._phases.learn(record)

    @property
    def is_doubtful(self) -> bool:
        """True when the manifest beside the stream decided its profile, not its first record."""
        return self.profile == "kaun/v1" and bool(self.head) and self.head[0].get("type") != "scalar"

    def may_be_of(self, dialect: DialectChoice) -> bool:
        """Return whether the stream is read as what the user named, or is of a profile of the user."""
        if dialect.is_named:
            return True
        return bool(self.head) and dialect.profile_of(self.head[0].raw + b"\n", self._path) is not None

    def take_tail(self, tail: bytes) -> Literal["enough", "too little", "nothing"]:
        """Take in the last bytes of the stream; return whether they tell where the run stands, or hold no record."""
        feed = RecordFeed(profile=self.profile)
        # The first line may have begun before.
        self._tail = _records(feed.feed(tail[tail.find(b"\n") + 1 :])) if b"\n" in tail else []
        self._state = "damaged" if self._is_damaged else feed.state
        self._count = None
        if not self._is_resumed():
            telling = any(map(self._tells_loss, reversed(self._tail)))
            return "enough" if telling else "too little" if self._tail else "nothing"
        # What goes on from a step that was not read says too little, and no more of the end may say it.
        behind = [record for record in self._latest(Attempts()) if record.line > len(self.head)]
        return "enough" if any(map(self._tells_loss, behind)) else "nothing"

    def summary(self, profile: Profile, size: int) -> RunSummary:
        """Return the summary of these ends of a stream of *size* bytes that follows *profile*."""
        summary = RunSummary(self._path, parts=0)
        summary.knows_metrics = False
        if self._is_resumed():
            summary.take(self._latest(summary.attempts))
        else:
            summary.take(self._telling([*self.head, *self._tail]), learn="attempts")
        summary.describe(profile, Extent(self._state, self._count, size, self._count is not None))
        return summary

    def _is_resumed(self) -> bool:
        return bool(self._phases) or any(record.kind == "run_resume" for record in self._tail)

    def _latest(self, attempts: Attempts) -> list[Record]:
        """Return the records that no later attempt supersedes; *attempts* learns of all."""
        records = [*self.head, *self._tail]
        for line, record in enumerate(records, 1):
            # Lines of the tail were counted from its start.
            record.line = line
            attempts.learn(record)
        return list(attempts.latest(records))

    def _telling(self, records: list[Record]) -> list[Record]:
        """Return the *records* that count: up to the first step, the ends of runs, and from the last step on."""
        if self.profile == "kaun/v1":
            return records
        last = next((at for at in range(len(records) - 1, -1, -1) if self._tells_loss(records[at])), 0)
        first = next((at for at in range(last) if self._is_step(records[at])), last)
        ends = [record for record in records[first + 1 : last] if record.end is not None or record.goes_on]
        return [*records[: first + 1], *ends, *records[max(first + 1, last) :]]

    def _tells_loss(self, record: Record) -> bool:
        if record.profile == "kaun/v1":
            return record.get("tag") in LOSS_NAMES
        return "loss" in record.value and self._is_step(record)

    def _is_step(self, record: Record) -> bool:
        return self._phases.is_own_step(record)


def engine_ends(streams: Sequence[Stream]) -> dict[str, RunSummary]:
    """Return the summaries of runs with short streams that the compiled engine reads, by path; others are left out."""
    engine = native()
    if engine is None:
        return {}
    found = engine.ends([stream.path for stream in streams], _WHOLE_BYTES)
    runs = {}
    for stream, each in zip(streams, found, strict=True):
        if each is not None:
            profile, state, count, size, lines = each[:5]
            run = RunSummary(stream.path, parts=0)
            run.knows_metrics = False
            run.take(RecordFeed(profile=profile).feed(lines), learn="attempts")
            run.describe(profile, Extent(state, count, size))
            runs[stream.path] = run
    return runs


def _records(found: Iterable[Record | Gap]) -> list[Record]:
    return [item for item in found if isinstance(item, Record)]


def _read_ends(path: str, descriptor: int, size: int, whole: int) -> Ends | None:
    """Return the ends of an open file of *size* bytes, all of it up to *whole*; None where they hold no record."""
    head = tail = BLOCK_BYTES if size > whole else size
    ends = None
    while head + tail < size and head <= _MOST_BYTES:
        ends = Ends(path, _read_at(descriptor, 0, head))
        if ends.head:
            break
        head *= _GROWTH
    while ends is not None and ends.head and head + tail < size:
        found = ends.take_tail(_read_at(descriptor, size - tail, tail))
        if found == "enough" or tail * _GROWTH > _MOST_BYTES:
            return None if found == "nothing" else ends
        tail *= _GROWTH
    if size > head + tail:
        return None
    data = _read_at(descriptor, 0, size)
    return None if data.startswith(GZIP_MAGIC) else Ends(path, data)


def _remote_ends(address: str) -> tuple[Ends, int] | None:
    """Return the ends of the stream at *address* and its size; None if they do not tell, as of gzip data.

    None also if it cannot be read: reading all of it then says why.
    """
    # Imported with the first address: start-up time counts.
    from toyspec.places.opening import place_of

    try:
        place = place_of(address)
        head, entry = place.read_range(address, 0, REMOTE_BYTES, None)
        if head.startswith(GZIP_MAGIC):
            return None
        ends = Ends(address, head)
        if entry.size <= len(head):
            return ends, entry.size
        size = min(REMOTE_BYTES, entry.size - len(head))
        tail = place.read_range(address, entry.size - size, size, entry.identity).data
        if len(head) + size == entry.size:
            return Ends(address, head + tail), entry.size
    except OSError:
        return None
    # The end begins in a line; without a record in it, only the whole stream tells.
    return None if not ends.head or ends.take_tail(tail) == "nothing" else (ends, entry.size)


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)
