"""Reads a whole stream: records in order, and a report on all other bytes."""

from __future__ import annotations

import io
import os
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, get_args

from toyspec.core.engine import native
from toyspec.core.errors import DamagedStreamError, TornStreamError, UnknownFormatError, check_choice
from toyspec.core.findings import Gap, Profile, ReadReport
from toyspec.core.format.known_formats import look_of
from toyspec.core.format.line_validation import decode
from toyspec.core.format.profiles import closing_kind, detect_profile, profile_named
from toyspec.core.generated import looks, messages, rules
from toyspec.core.generated.limits import MAX_LINE_BYTES, MAX_LISTED_GAPS
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.log_detection import HEAD_BYTES, DialectChoice, detect_profile_at
from toyspec.core.reading.records import Record, RecordFeed
from toyspec.core.reading.stream_files import STREAM_NAMES, Source, open_named, unpacked_head, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from toyspec.core.reading.readers import LogFeed, OpenedLog

    NewFeed = partial[Any]


Mode = Literal["strict", "tail", "prefix", "salvage"]
"""How a reading treats a stream that is not complete.

- ``strict``: anything but a complete stream raises.
- ``tail``: a torn end is reported; damage raises.
- ``prefix``: reading stops at the first damage, without raising.
- ``salvage``: unreadable lines are skipped.
"""

AttemptView = Literal["all", "latest"]
"""Whether a reading yields every record, or leaves out the steps that a later ``run_resume`` superseded."""


class Reading:
    """The records of one stream, once and in order; the stream is read on demand.

    Depending on the mode, iterating raises DamagedStreamError at an unreadable line and TornStreamError at the
    end. It raises StreamUnreadableError if the input fails. Memory does not grow with the stream.
    A reading closes its file at the end, on an exception, by ``close`` and as a context manager.
    """

    def __init__(self, source: Source, *, mode: Mode, attempts: AttemptView, feed: NewFeed) -> None:
        # The walk has no reference to its reading: without a cycle, a dropped reading closes its file at once.
        self._walk = _Walk(source, mode, feed, attempts)
        self._blocks = self._walk.blocks()
        self._records: Iterator[Record] = chain.from_iterable(self._blocks)

    def __repr__(self) -> str:
        return f"<Reading of {self._walk.source.name!r}>"

    def __iter__(self) -> Iterator[Record]:
        # The underlying iterator, so that a loop makes no call of this class for each record.
        return self._records

    def __next__(self) -> Record:
        return next(self._records)

    def events(self) -> Iterator[Any]:
        """Iterate over events in place of records: each as its type, for example ``Step``.

        A record of an unknown kind or with a wrong field has no event; it is yielded as a record. Unknown keys are
        in records only. Raises as iterating does.
        """
        return (record if record.event is None else record.event for record in self._records)

    def give_blocks(self, *, attempts: Attempts | None = None, exact: bool = False) -> None:
        """Give a ``StepBlock`` in place of many records of which only the numbers count, where that is faster.

        In the log of another program it is a ``RowBlock``. See ``StepBlockFeed``. Call it before reading.
        """
        self._walk.give_blocks(attempts=attempts, exact=exact)

    @property
    def report(self) -> ReadReport:
        """The report of the whole reading; reads the rest of the stream first, and raises as iterating does.

        Such an exception has the report too, as its ``report``. Raises ValueError if the reading was closed before
        its end.
        """
        for _ in self._records:
            pass
        if self._walk.report is None:
            raise ValueError(
                f"the reading of {self._walk.source.name} was closed before its end; ask for its report first"
            )
        return self._walk.report

    def close(self) -> None:
        """Stop reading and close the file."""
        self._records = iter(())
        self._blocks.close()
        self._walk.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Walk:
    """Reads a source once or twice and makes the report."""

    def __init__(self, source: Source, mode: Mode, feed: NewFeed, attempts: AttemptView) -> None:
        self.source = source
        self.report: ReadReport | None = None
        self._mode = mode
        self._new_feed = feed
        self._attempts = attempts
        self._gaps: list[Gap] = []
        self._unlisted = 0

    def give_blocks(self, **options: Any) -> None:
        """Switch to blocks."""
        if self._new_feed.func is not RecordFeed:
            self._new_feed = partial(self._new_feed, target="blocks")
        elif native() is not None:
            from toyspec.core.reading.step_blocks import StepBlockFeed

            self._new_feed = partial(StepBlockFeed, **options, **self._new_feed.keywords)

    def blocks(self) -> Generator[list[Record]]:
        try:
            yield from self._all() if self._attempts == "all" else self._latest()
        finally:
            self.source.close()

    def _all(self) -> Generator[list[Record]]:
        """Yield every record, make the report and raise as the mode says."""
        feed = self._new_feed()
        records = gap_bytes = 0
        while chunk := self._read(feed):
            found: list[Any] = feed.feed(chunk)
            if feed.gap_bytes != gap_bytes:
                gaps = [item for item in found if isinstance(item, Gap)]
                if self._mode != "salvage":
                    found = found[: found.index(gaps[0])]
                    yield found
                    self._stop(feed, gaps[0], records + sum(getattr(item, "records", 1) for item in found))
                    return
                self._gaps += gaps[: MAX_LISTED_GAPS - len(self._gaps)]
                self._unlisted += len(gaps)
                found = [item for item in found if not isinstance(item, Gap)]
            yield found
            records, gap_bytes = feed.records, feed.gap_bytes
        self.report = ReadReport(
            state=feed.state,
            profile=feed.profile,
            records=feed.records,
            committed_bytes=feed.committed - feed.gap_bytes,
            fragment=feed.fragment(),
            uncommitted=feed.uncommitted(),
            gaps=self._gaps,
            unlisted_gaps=self._unlisted - len(self._gaps),
            gap_bytes=feed.gap_bytes,
            size=feed.size,
            dialect=feed.use,
        )
        if self._mode == "strict" and self.report.state != "complete":
            raise _torn(self.source.name, self.report, feed.last)

    def _latest(self) -> Generator[list[Record]]:
        """Yield the records of the latest attempt at each step: one pass learns, a second one yields."""
        attempts = Attempts()
        last = 0
        for block in self._all():
            for record in block:
                attempts.learn(record)
                last = record.line
        self.source.rewind()
        feed = self._new_feed()
        while chunk := self._read(feed):
            records = [item for item in feed.feed(chunk) if isinstance(item, Record) and item.line <= last]
            yield list(attempts.latest(records))
            if feed.next_line > last:
                # The rest was written meanwhile.
                return

    def _read(self, feed: RecordFeed | LogFeed) -> bytes:
        try:
            return self.source.read(feed.chunk_bytes)
        except OSError as error:
            raise unreadable(self.source.name, error, offset=feed.size) from error

    def _stop(self, feed: RecordFeed | LogFeed, gap: Gap, records: int) -> None:
        """Make the report of a reading that stopped at *gap*, the first, after *records*; raise as the mode says."""
        size = self.source.measure()
        received = feed.size
        # A source of unknown size is read to its end to be counted, but not by a reading that is about to raise.
        while size is None and self._mode == "prefix" and (chunk := self._read(feed)):
            received += len(chunk)
        size = max(size or 0, received)
        end = gap.offset + gap.length
        rest = Gap(gap.line + 1, end, size - end, "stopped", f"{size - end} bytes after the damage were not read")
        self.report = ReadReport(
            state="damaged",
            # The feed may have decoded records after the gap, which were not read.
            profile=feed.profile if records or not isinstance(feed, RecordFeed) else feed.without_records(has_gap=True),
            records=records,
            committed_bytes=gap.offset,
            fragment=None,
            uncommitted=None,
            gaps=[gap, rest] if rest.length else [gap],
            unlisted_gaps=0,
            gap_bytes=size - gap.offset,
            size=size,
            dialect=feed.use,
        )
        if self._mode != "prefix":
            fact = f"{gap.reason}: {gap.message}"
            raise DamagedStreamError(self.source.name, fact, line=gap.line, offset=gap.offset, report=self.report)


def read(  # noqa: PLR0913 - each is an option of its own
    source: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    mode: Mode = "tail",
    profile: Profile | str | None = None,
    attempts: AttemptView = "all",
    max_line_bytes: int = MAX_LINE_BYTES,
    name: str | None = None,
    dialect: DialectChoice | str | None = "auto",
) -> Reading:
    """Return a reading of the stream in *source*.

    *source* is the path or the address of a stream or of a run directory, the bytes of a stream, or a binary file
    object, which is read from its position and stays open. A file of gzip data is decompressed as it is read. *profile*
    is detected by default; a file of another format has none, and its records are not interpreted. It may also be the
    directory of a user's profile; its records have no ``event``. *attempts*
    ``"latest"`` leaves out what a later ``run_resume`` superseded; it reads the source twice, so it cannot read pipes.
    *max_line_bytes* is the longest line that is read, LF excluded. *name* is the name of the file that bytes or the
    file object come from: it decides the profile if no record does.

    The log of another program is recognized and read by its *dialect*: each record is a ``Row`` with ``step``,
    ``time``, ``epoch``, ``phase`` and ``values``. *dialect* may also be the name of one; None recognizes none.

    Raises StreamMissingError or StreamUnreadableError if there is nothing to read, and ValueError or TypeError for
    wrong arguments. See Reading for what iterating raises.
    """
    check_choice("mode", mode, get_args(Mode))
    check_choice("attempts", attempts, get_args(AttemptView))
    profile = profile_named(profile)
    choice = DialectChoice.of(dialect)
    detect: Callable[..., Profile | None] = partial(detect_profile, file_name=name or "")
    if isinstance(source, bytes | bytearray | memoryview):
        # Bytes are the stream itself; only files may be compressed.
        opened = Source(io.BytesIO(source), name="<bytes>", gzip="keep")
    elif isinstance(source, str | os.PathLike):
        opened = open_named(source, choice.stream_files)
        detect = partial(detect_profile_at, opened.name)
    elif hasattr(source, "read"):
        opened = Source(source)
    else:
        raise TypeError(f"source is a {type(source).__name__}; it must be a path, bytes or a binary file object")
    if attempts == "latest" and not opened.rewind():
        opened.close()
        raise ValueError(
            f"attempts='latest' reads the source twice, but {opened.name} can be read only once; use attempts='all'"
        )
    known: Any = profile
    read_as: OpenedLog | None = None
    if profile is None and choice.is_open:
        try:
            known, read_as = choice.decide(opened.peek(HEAD_BYTES), detect, path=opened.name)
        except OSError as error:
            raise unreadable(opened.name, error, offset=0) from error
    feed: NewFeed
    if read_as is None:
        feed = partial(RecordFeed, profile=known, detect=detect, max_line_bytes=max_line_bytes)
    else:
        feed = partial(read_as.feed, max_line_bytes=max_line_bytes)
    return Reading(opened, mode=mode, attempts=attempts, feed=feed)


def _torn(name: str, report: ReadReport, last: Record | None) -> TornStreamError:
    fragment = report.fragment
    if fragment is not None:
        count = fragment.length
        fact = (
            f"{rules.NUL_BYTES}: {messages.nul_bytes_at_end(count=count)}"
            if fragment.all_nul
            else f"{rules.UNTERMINATED_LINE}: {messages.unterminated_line(count=count)}"
        )
        return TornStreamError(name, fact, line=fragment.number, offset=fragment.offset, report=report)
    if last is None:
        return TornStreamError(
            name, f"{rules.STREAM_EMPTY}: {messages.stream_empty(size=report.size)}", line=1, offset=0, report=report
        )
    fact = f"{rules.RUN_END_MISSING}: {messages.run_end_missing(kind=closing_kind(report.profile))}"
    return TornStreamError(name, fact, line=last.line, offset=last.offset, report=report)


_BOM = b"\xef\xbb\xbf"


def unknown_format(path: str) -> UnknownFormatError:
    """Return the exception for the file at *path*, which has no profile; raise StreamError if it is gone."""
    head = unpacked_head(path, looks.HEAD_BYTES + 1)[0]
    with read(path, mode="salvage", dialect=None) as reading:
        first = next(reading, None)
    look = look_of(head, None if first is None else list(first.value), is_all=len(head) <= looks.HEAD_BYTES)
    parts = (look.fact, look.advice, "`toyspec check` says what can be done with it")
    return UnknownFormatError(path, "; ".join(part for part in parts if part))


def is_other_document(path: str, data: bytes) -> bool:
    """Return whether *data*, the bytes of the file *path*, are text without an LF that is not a part of a record.

    It is one object that follows no profile, or text that does not begin as one. Half a record is not an object, and a
    whole one of toyspec names its profile.
    """
    if b"\n" in data or b"\0" in data:
        return False
    start = data.removeprefix(_BOM).lstrip()[:1]
    if start not in (b"", b"{") and os.path.basename(path) not in STREAM_NAMES:
        return True
    if not path.endswith(".json"):
        return False
    value = decode(data)
    return value is not None and detect_profile(value) is None
