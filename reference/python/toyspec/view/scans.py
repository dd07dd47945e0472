"""One run as a file or object that may grow: reads what is new, keeps its summary and a pyramid of each curve."""

from __future__ import annotations

from functools import partial
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from toyspec.core.engine import native
from toyspec.core.errors import StreamUnreadableError
from toyspec.core.findings import Gap
from toyspec.core.format.numbers import finite_number
from toyspec.core.format.record_mapping import mapping_of
from toyspec.core.reading.follower import FollowedFeed
from toyspec.core.reading.live_stream import LiveStream, identity_of
from toyspec.core.reading.log_detection import DialectChoice, detect_profile_at
from toyspec.core.reading.records import RecordFeed
from toyspec.core.reading.step_blocks import StepBlock, StepBlockFeed
from toyspec.core.runs.run_facts import cut
from toyspec.core.runs.summary import RunSummary
from toyspec.core.system_calls import cause_of
from toyspec.view.pyramids import MOST_BUCKETS, EnginePyramid, new_pyramid
from toyspec.view.rows import MOST_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toyspec.core.reading.attempts import Attempts
    from toyspec.core.reading.live_stream import Identity
    from toyspec.core.reading.records import Record
    from toyspec.view.pyramids import AnyPyramid

    Wanted = Callable[[str], bool]

MOST_MARKS = 2000
_MAX_STEP = 1 << 63
_MOST_STRETCHES = 20
_CHUNK_BYTES = 1 << 18
_MOST_VERSIONS = 8
# What each of several threads reads at once.
_THREAD_BYTES = 1 << 20


class Scan:
    """What the curves of a run are made of. Memory does not grow with the run, but with the number of its metrics.

    *attempts* are the resumptions of the whole stream, from a first scan: what they supersede is apart.
    *wanted* chooses metrics by name, and *most* is the number of buckets of each.
    """

    def __init__(
        self, path: str, *, attempts: Attempts | None = None, wanted: Wanted | None = None, most: int = MOST_BUCKETS
    ) -> None:
        self.summary = RunSummary(path, attempts=attempts, parts=0)
        self._learns = attempts is None
        self._wanted = wanted
        self._most = most
        self.latest: dict[str, AnyPyramid] = {}
        """The curve of each metric, as the latest attempt made it."""
        self.abandoned: list[dict[str, AnyPyramid]] = []
        """What later attempts did again, one stretch for each resumption."""
        self._ends_stretch = True
        self._attempt = 1
        self.gaps: list[dict[str, Any]] = []
        """Unreadable lines: the place before them, line, offset and length."""
        self.resumes: list[dict[str, Any]] = []
        """Resumptions: the place that they go on from, and the line."""
        self.alerts: list[dict[str, Any]] = []
        """Alerts of the run: place, rule, level, metric if there is one, and where the line is."""
        self._place: tuple[float, float, float] = (nan, nan, nan)
        self._first_time: float | None = None

    @property
    def needs_second(self) -> bool:
        """True after a first scan that found resumptions: only another one can tell what they supersede."""
        return self._learns and self.summary.needs_second

    def take(self, items: Iterable[Record | StepBlock | Gap]) -> None:
        """Add records, blocks of numbers and gaps in their order."""
        for item in items:
            if isinstance(item, Gap):
                self._take_gap(item)
            elif isinstance(item, StepBlock):
                self._take_block(item)
            else:
                self._take_record(item)

    def _take_gap(self, gap: Gap) -> None:
        if len(self.gaps) < MOST_MARKS:
            # A block has its steps as floats, a record as integers; which of both came before must not show.
            step, time, epoch = map(float, self._place)
            place = _named((step, time, epoch))
            self.gaps.append(
                {**place, "line": gap.line, "offset": gap.offset, "length": gap.length, "reason": gap.reason}
            )

    def _take_block(self, block: StepBlock) -> None:
        attempts, numbers = self.summary.attempts, block.numbers
        is_abandoned = not self._learns and block.is_abandoned(attempts)
        if not is_abandoned:
            self.summary.take([block])
        where = self._stretch() if is_abandoned else self.latest
        begin = None
        if block.profile == "kaun/v1" and numbers.times is not None:
            begin = self._first_time = numbers.times[0] if self._first_time is None else self._first_time
        names = {numbers.names[at]: at for at in block.order}
        for name, column in attempts.named(names, numbers.phase).items():
            curve = self._curve(name, where)
            if isinstance(curve, EnginePyramid):
                curve.native.add_block(numbers, column, (block.offset, block.line), begin)
        place = numbers.last_place() if names else None
        if place is not None:
            time = place[1] if begin is None else place[1] - begin
            self._place = place[0], time if isfinite(time) else nan, place[2]

    def _take_record(self, record: Record) -> None:
        summary = self.summary
        is_abandoned = not self._learns and summary.attempts.are_values_abandoned(record)
        step = summary.placing.step_of(record)
        if not is_abandoned:
            summary.take([record])
        if (record.kind == "run_resume" and record.profile == "toy/v1") or record.attempt > self._attempt:
            self._resume(record)
        if record.kind == "alert" and record.profile == "toy/v1":
            self._take_alert(record)
        place = self._place_of(record, step) if record.values else None
        if place is None:
            return
        self._place = place
        where = self._stretch() if is_abandoned else self.latest
        for name, value in summary.attempts.named_values(record).items():
            curve = self._curve(name, where)
            if curve is not None:
                known = finite_number(value)
                curve.add(place, nan if known is None else known, (record.offset, record.line))

    def _stretch(self) -> dict[str, AnyPyramid]:
        """Return the curves of the stretch that is abandoned at this point; the last one takes in what is too many."""
        if self._ends_stretch and len(self.abandoned) < _MOST_STRETCHES:
            self.abandoned.append({})
        self._ends_stretch = False
        return self.abandoned[-1]

    def _resume(self, record: Record) -> None:
        if len(self.resumes) < MOST_MARKS:
            step, time = record.get("from_step"), record.time
            place = (step if type(step) is int else nan, nan if time is None else time, nan)
            self.resumes.append({**_named(place), "line": record.line})
        self._ends_stretch, self._attempt = True, record.attempt

    def _take_alert(self, record: Record) -> None:
        if len(self.alerts) >= MOST_MARKS:
            return
        step, time = record.step, finite_number(record.time)
        known = self._place[0] if step is None else float(step)
        said = {name: cut(text) for name in ("rule", "level", "metric") if isinstance(text := record.get(name), str)}
        where = {"line": record.line, "offset": record.offset, "length": len(record.raw)}
        self.alerts.append({**_named((known, nan if time is None else time, nan)), **said, **where})

    def _place_of(self, record: Record, step: float) -> tuple[float, float, float] | None:
        """Return *step*, time and epoch of a record; None for a step that is not valid."""
        if mapping_of(record.profile).of_kind(record.kind).role == "step" and not record.is_step:
            return None
        time = self._since_first(record.time) if record.time_origin == "unix" else record.time
        figure, seconds, epoch = map(finite_number, (step, time, record.epoch))
        if figure is None or abs(figure) >= _MAX_STEP:
            return None
        return figure, nan if seconds is None else seconds, nan if epoch is None else epoch

    def _since_first(self, time: float | None) -> float | None:
        """Return the seconds since the first of the times of day."""
        if time is None:
            return None
        self._first_time = time if self._first_time is None else self._first_time
        return time - self._first_time

    def _curve(self, name: str, where: dict[str, AnyPyramid]) -> AnyPyramid | None:
        curve = where.get(name)
        if curve is not None or (self._wanted is not None and not self._wanted(name)):
            return curve
        if len(where) >= MOST_METRICS:
            return None
        curve = where[name] = new_pyramid(self._most)
        return curve


def _named(place: tuple[float, float, float]) -> dict[str, float | None]:
    names = ("step", "time", "epoch")
    return {name: figure if isfinite(figure) else None for name, figure in zip(names, place, strict=True)}


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
        plain = partial(StepBlockFeed, attempts=attempts, threads=self._threads)
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

    def _describe(self) -> None:
        feed = self._feed.feed_now
        summary = self.scan.summary
        if not isinstance(feed, RecordFeed):
            summary.dialect = feed.use
        size = self._stream.size if self.is_compressed else feed.size
        summary.describe(feed.profile, feed.state, feed.records, size)

    @property
    def is_known(self) -> bool:
        """True if the file follows a profile or a dialect."""
        feed = self._feed.feed_now
        return feed.profile is not None or not isinstance(feed, RecordFeed)

    @property
    def is_compressed(self) -> bool:
        """True for gzip data."""
        return self._stream.is_compressed

    def identity(self) -> Identity:
        """Return the identity of the file or object when it was read."""
        return identity_of(self._stream.status)

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        self._stream.close()
