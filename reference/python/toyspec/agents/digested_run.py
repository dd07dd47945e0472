"""One run as a digest sees it: exact values with their lines, and the cursor that says where an answer stopped."""

from __future__ import annotations

import hashlib
import re
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from toyspec.core.errors import StreamReplacedError
from toyspec.core.reading.attempts import Placing
from toyspec.core.reading.log_detection import HEAD_BYTES
from toyspec.core.reading.reader import read
from toyspec.core.reading.stream_files import unpacked_head
from toyspec.core.runs.run_facts import settings_of

if TYPE_CHECKING:
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.reading.records import Record
    from toyspec.core.runs.summary import RunSummary

MOST_METRICS: Final = 10_000
"""Metrics beyond these are counted, and not kept."""
MOST_RECORDS: Final = 10_000
"""Notes and resumptions beyond these, each, are counted, and not kept."""
_SPREAD = 8
_BESIDE = 2
_TEXT = re.compile(r"c1((?:-\d+\.[0-9a-f]{6}(?:\.\d+)?)+)(?:~(\d+)\.(\d+)\.(\d+))?")
_PART = re.compile(r"-(\d+)\.([0-9a-f]{6})(?:\.(\d+))?")
_MOST_DIGITS = 18

Role = Literal["first", "last", "lowest", "highest", "not finite", "between", "at or before", "after"]
"""Why a point is in a digest. ``not finite`` is the first value that is NaN, infinite or null."""


class LogPlace(NamedTuple):
    """What a cursor knows of one run."""

    line: int
    """The answer is about the lines after this one."""
    digest: str
    """The first 6 hexadecimal digits of the SHA-256 of the first line, which tells another log apart."""
    until: int | None = None
    """The last line that the answer is about; None for all lines that there are."""


class AnswerCursor(NamedTuple):
    """Asks for what comes after an answer."""

    places: tuple[LogPlace, ...]
    """One for each run, in the order in which the runs were named."""
    item: tuple[int, int, int] | None = None
    """The next item: number of its section, of its run, and of the item in both, counted from 0; None for all."""

    def __str__(self) -> str:
        parts = (f"-{line}.{digest}" + ("" if until is None else f".{until}") for line, digest, until in self.places)
        rest = "" if self.item is None else "~" + ".".join(map(str, self.item))
        return "c1" + "".join(parts) + rest

    @classmethod
    def parse(cls, text: str) -> AnswerCursor:
        """Return the cursor that ``str`` wrote as *text*; raise ValueError for anything else."""
        found = _TEXT.fullmatch(text)
        if (
            found is None
            or not text.isascii()
            or any(len(number) > _MOST_DIGITS for number in re.findall(r"\d+", text))
        ):
            raise ValueError(f"{text[:80]!r} is not a cursor; give one that a digest printed, unchanged")
        places = tuple(
            LogPlace(int(line), digest, int(until) if until else None)
            for line, digest, until in _PART.findall(found[1])
        )
        item = (int(found[2]), int(found[3]), int(found[4])) if found[2] else None
        return cls(places, item)


class DigestPoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a record, exactly."""

    value: float | int | str | None
    """The number; ``nan``, ``inf`` or ``-inf`` as text; None for null."""
    step: float | int
    line: int
    """Number of the line, counted from 1."""
    role: Role = "between"


class MetricPoints:
    """The points of one metric that a digest may show, in memory that does not grow."""

    def __init__(self) -> None:
        self.count = 0
        self.not_finite = 0
        self._ends: dict[Role, DigestPoint] = {}
        self._spread: list[DigestPoint] = []
        self._stride = 1
        self.before: list[DigestPoint] = []
        self.after: list[DigestPoint] = []

    def add(self, value: float | None, step: float, line: int, around: float | None) -> None:
        """Take in *value* of the record at *line*."""
        ends, shown = self._ends, _shown(value)
        if not _is_finite(value):
            self.not_finite += 1
            ends.setdefault("not finite", DigestPoint(shown, step, line, "not finite"))
        else:
            low, high = ends.get("lowest"), ends.get("highest")
            if low is None or value < low.value:  # type: ignore[operator]
                ends["lowest"] = DigestPoint(shown, step, line, "lowest")
            if high is None or value > high.value:  # type: ignore[operator]
                ends["highest"] = DigestPoint(shown, step, line, "highest")
        ends.setdefault("first", DigestPoint(shown, step, line, "first"))
        ends["last"] = DigestPoint(shown, step, line, "last")
        if self.count % self._stride == 0:
            self._spread.append(DigestPoint(shown, step, line))
            if len(self._spread) > 2 * _SPREAD:
                self._spread = self._spread[::2]
                self._stride *= 2
        self.count += 1
        if around is not None:
            self._keep_beside(shown, step, line, around)

    @property
    def extremes(self) -> list[DigestPoint]:
        """The first value that is not finite, the lowest and the highest, as far as there are such."""
        return [self._ends[role] for role in ("not finite", "lowest", "highest") if role in self._ends]

    @property
    def curve(self) -> list[DigestPoint]:
        """The first and the last point and some between, in the order of the log; extremes have a role."""
        points = {point.line: point for point in self._spread}
        points |= {point.line: point for point in self._ends.values()}
        return [points[line] for line in sorted(points)]

    def _keep_beside(self, shown: Any, step: float, line: int, around: float) -> None:
        if step <= around:
            kept = sorted([*self.before, DigestPoint(shown, step, line, "at or before")], key=_place)
            self.before = kept[-_BESIDE:]
        else:
            self.after = sorted([*self.after, DigestPoint(shown, step, line, "after")], key=_place)[:_BESIDE]


class DigestedRun:
    """What the lines of one run say, after *since* and up to its end."""

    def __init__(self, summary: RunSummary, since: LogPlace | None, around: float | None) -> None:
        """*summary* is that of the whole run, whose resumptions say which records count."""
        self.summary = summary
        self.path = path = summary.path
        self.since = since.line if since else 0
        self.metrics: dict[str, MetricPoints] = {}
        self.metrics_left_out = 0
        self.notes: list[Record] = []
        self.resumptions: list[Record] = []
        self.records_left_out = 0
        self.records = 0
        """Number of records in these lines, without those that a resumption superseded."""
        self.start_line: int | None = None
        self.changed_settings: dict[str, int] = {}
        """Line of the last resumption that changed a setting, by its name."""
        self.end_line: int | None = None
        self.last_line = 0
        self.last_step_before: int | None = None
        """The last step of the lines before."""
        self.last_step: int | None = None
        self._until = since.until if since else None
        self._around = around
        self._unnamed: set[str] = set()
        self._attempts = summary.attempts
        self._placing = Placing(self._attempts)
        self._digest = _first_line(path)
        if since is not None and since.line and since.digest != self._digest:
            raise _replaced(path)

    @property
    def until(self) -> int:
        """The last line that this is about."""
        return self.last_line if self._until is None else self._until

    @property
    def place(self) -> LogPlace:
        """Where the next digest goes on."""
        return LogPlace(self.until, self._digest)

    @property
    def slice(self) -> LogPlace:
        """The lines that this is about."""
        return LogPlace(self.since, self._digest, self.until)

    def has(self, line: int | None) -> bool:
        """Return whether *line* is one of these or comes after all: an end without LF is reported until it is whole."""
        return line is None or (line > self.since and (line <= self.until or line > self.last_line))

    def read(self, choice: DialectChoice) -> None:
        """Read the run once; raise StreamReplacedError if it is shorter than it was."""
        with read(self.path, mode="salvage", dialect=choice) as reading:
            for record in reading:
                if not self._attempts.are_values_abandoned(record):
                    self._take(record)
            report = reading.report
        self.last_line = max([self.last_line, *(gap.line for gap in report.gaps)])
        if self.until > self.last_line or self.since > self.last_line:
            raise _replaced(self.path)

    def _take(self, record: Record) -> None:
        if self._until is not None and record.line > self._until:
            self.last_line = max(self.last_line, record.line)
            return
        step = self._placing.take(record)
        line = self.last_line = max(self.last_line, record.line)
        if line <= self.since:
            self.last_step_before = self._placing.last
            return
        self.records += 1
        self.last_step = self._placing.last
        if record.start is not None and self.start_line is None:
            self.start_line = line
        self.end_line = None if record.goes_on else self.end_line if record.end is None else line
        if record.profile == "toy/v1" and record.kind in ("note", "run_resume"):
            self._keep(self.notes if record.kind == "note" else self.resumptions, record)
        if record.goes_on:
            self.changed_settings |= dict.fromkeys(settings_of({"config": record.get("config")}), line)
        for name, value in self._attempts.named_values(record).items():
            points = self.metrics.get(name) or self._new_metric(name)
            if points is not None:
                points.add(value, step, line, self._around)

    def _keep(self, kept: list[Record], record: Record) -> None:
        if len(kept) < MOST_RECORDS:
            kept.append(record)
        else:
            self.records_left_out += 1

    def _new_metric(self, name: str) -> MetricPoints | None:
        if len(self.metrics) < MOST_METRICS:
            return self.metrics.setdefault(name, MetricPoints())
        if name not in self._unnamed and len(self._unnamed) < 100 * MOST_METRICS:
            self._unnamed.add(name)
            self.metrics_left_out += 1
        return None


def _shown(value: float | None) -> float | int | str | None:
    if value is None or _is_finite(value):
        return value
    return "nan" if isnan(value) else "inf" if value > 0 else "-inf"


def _is_finite(value: float | None) -> bool:
    # An integer of any size is, also one that no float has.
    return isinstance(value, int) or (value is not None and isfinite(value))


def _place(point: DigestPoint) -> tuple[float, int]:
    return (point.step, point.line)


def _first_line(path: str) -> str:
    head, _ = unpacked_head(path, HEAD_BYTES)
    return hashlib.sha256(head.partition(b"\n")[0]).hexdigest()[:6]


def _replaced(path: str) -> StreamReplacedError:
    return StreamReplacedError(path, "this is not the log that the cursor is from; ask again without the cursor")
