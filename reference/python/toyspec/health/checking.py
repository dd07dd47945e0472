"""Compares a log with health rules: a whole one, or one that grows."""

from __future__ import annotations

import contextlib
import heapq
import os
import time
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.places.addresses import is_address, public
from toyspec.core.reading.follower import follow
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record
from toyspec.core.reading.run_files import rank_of, ranks_beside, run_of
from toyspec.core.reading.stream_files import locate_stream
from toyspec.health.evaluator import HealthEvaluator
from toyspec.health.rules import HealthAlert, Incidents, project_rules, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toyspec.core.reading.configuration import Configuration
    from toyspec.core.reading.step_blocks import StepBlock
    from toyspec.health.rules import AnyRule


_OF_EVENT = ("rule", "level", "text", "metric", "value", "threshold", "rank")


def check_health(
    run: str | os.PathLike[str],
    health: str | Sequence[Mapping[str, Any]] | Configuration = "default",
    *,
    dialect: DialectChoice | str | None = "auto",
) -> list[HealthAlert]:
    """Return what health rules report about *run*, a run directory or a stream of any profile or dialect, in order.

    *health* is a preset, ``"default"``, ``"rl"`` or ``"strict"``, or a list of rules as ``[[health]]`` has them. Each
    incident is there once, and its end as an alert with the event ``"recovered"``. An alert that the log itself has
    is there too, if it is not the same. The streams of other ranks beside ``events.jsonl`` are compared with it.

    Unreadable lines are passed over. Raises ValueError for a wrong rule, StreamMissingError, StreamUnreadableError and
    UnknownFormatError.
    """
    choice = DialectChoice.of(dialect)
    path = locate_stream(public(os.fspath(run)), choice.stream_files)
    return [alert for _, alert in alerts_of(path, rules_of(health), choice)]


def alerts_of(path: str, rules: Sequence[AnyRule], choice: DialectChoice) -> Iterator[tuple[str, HealthAlert]]:
    """Yield the alerts of the stream at *path*, each with the path of the stream that has its line.

    Raises as ``check_health`` does.
    """
    streams = {0: path, **ranks_beside(path)}
    is_several = len(streams) > 1
    record_health = RecordHealth(rules, several=is_several)
    for rank, record in _records(streams, choice):
        for alert in record_health.take(record, rank=rank):
            yield streams[rank], alert


def incidents_of(path: str, rules: Sequence[AnyRule], choice: DialectChoice) -> Incidents | None:
    """Return the incidents in the run of the stream at *path*; None if it cannot be read."""
    found = Incidents()
    try:
        for _, alert in alerts_of(path, rules, choice):
            found.take(alert)
    except (OSError, ToyspecError):
        return None
    return found


def counted_incidents(path: str, choice: DialectChoice) -> dict[str, int] | None:
    """Return the counts of the incidents that the rules of the project find in a run; None if it cannot be read.

    Raises as ``project_rules`` does.
    """
    found = incidents_of(path, project_rules(), choice)
    return None if found is None else found.counts


class RecordHealth:
    """What health rules report about records, and what the log itself reports, each once."""

    def __init__(self, rules: Sequence[AnyRule], *, several: bool = False, is_live: bool = False) -> None:
        """Begin with a run of which nothing is known.

        Where *is_live*, the time is looked at too: an alert of the log whose rule is one of *rules* then is not
        reported again.
        """
        self.evaluator = HealthEvaluator(rules, several=several)
        self._names = {rule.name for rule in rules} if is_live else set()
        self._reported: set[tuple[str, str, str | None, int | float | None]] = set()

    def take(self, record: Record, *, rank: int = 0) -> list[HealthAlert]:
        """Return the alerts that *record* begins or ends, or has; one that was evaluated before is not there again."""
        found = self.evaluator.take(record, rank=rank)
        self._reported.update(map(_identity, found))
        if record.kind == "alert" and record.profile == "toy/v1":
            recorded = recorded_alert(record, rank if self.evaluator.several else None)
            if recorded is not None and recorded.rule not in self._names and _identity(recorded) not in self._reported:
                found.append(recorded)
        return found

    def take_block(self, block: StepBlock) -> Iterator[tuple[int, HealthAlert]]:
        """Yield the alerts that the steps of *block*, of toy/v1, begin or end, each with the step's place in it."""
        columns = block.columns()
        steps, times, _ = block.rows()
        values_of = zip(*(column.values for column in columns.values()), strict=True) if columns else repeat(())
        for at, (step, seconds, values) in enumerate(zip(steps, times, values_of, strict=False)):
            known = {name: None if value != value else value for name, value in zip(columns, values, strict=True)}  # noqa: PLR0124 - NaN
            found = self.evaluator.observe(known, step=step, time=seconds, phase=block.numbers.phase)
            self._reported.update(map(_identity, found))
            yield from ((at, msgspec.structs.replace(alert, line=block.line + at)) for alert in found)


def _identity(alert: HealthAlert) -> tuple[str, str, str | None, int | float | None]:
    return (alert.rule, alert.event, alert.metric, alert.step)


def recorded_alert(record: Record, rank: int | None = None) -> HealthAlert | None:
    """Return the alert that an ``alert`` event has; None where the event is not valid."""
    said = {name: record.value[name] for name in _OF_EVENT if record.value.get(name) is not None}
    event = "recovered" if record.value.get("event") == "recovered" else "begun"
    if event == "begun" and record.value.get("settled") is True:
        event = "settled"
    place = {"step": record.step, "time": record.time, "line": record.line, "offset": record.offset}
    try:
        return msgspec.convert({"rank": rank, **said, "event": event, **place}, HealthAlert)
    except msgspec.ValidationError:
        return None


def _records(streams: Mapping[int, str], choice: DialectChoice) -> Iterator[tuple[int, Record]]:
    """Yield the records of all *streams*, each with its rank: those of several in the order of their times."""
    if len(streams) == 1:
        with read(streams[0], mode="salvage", dialect=choice) as reading:
            yield from ((0, record) for record in reading)
        return
    readings = {rank: read(path, mode="salvage", dialect=choice) for rank, path in streams.items()}
    try:
        each = [_timed(rank, reading) for rank, reading in readings.items()]
        for _, rank, record in heapq.merge(*each, key=lambda item: item[:2]):
            yield rank, record
    finally:
        for reading in readings.values():
            reading.close()


def _timed(rank: int, records: Iterable[Record]) -> Iterator[tuple[float, int, Record]]:
    last = 0.0
    for record in records:
        # Times of a resumption may start again; the order within a stream stays.
        last = max(last, record.time or 0.0)
        yield last, rank, record


class WatchedRun:
    """A run that is watched from outside of its process: its stream, and those of its other ranks."""

    def __init__(self, path: str, rules: Sequence[AnyRule], choice: DialectChoice) -> None:
        """Watch the run of the stream at *path*; nothing is read yet."""
        self.name = os.path.basename(os.path.abspath(run_of(path)))
        self._choice = choice
        self._health = RecordHealth(rules, is_live=True)
        self._streams: dict[int, _WatchedStream] = {}
        self.add(path)

    @property
    def has_ended(self) -> bool:
        """True once the stream says that the run has ended."""
        return self._streams[min(self._streams)].has_ended

    @property
    def last_growth(self) -> float:
        """When a stream grew last, by the monotonic clock."""
        return max(stream.last for stream in self._streams.values())

    def add(self, path: str) -> None:
        """Watch the stream at *path*, the first one or that of another rank."""
        rank = rank_of(os.path.basename(path)) or 0
        if rank not in self._streams:
            if self._streams:
                self._health.evaluator.several = True
            self._streams[rank] = _WatchedStream(path, self._choice)

    def poll(self) -> list[tuple[str, HealthAlert]]:
        """Return what is new, from the streams and from the time since they grew; each with the path of its stream."""
        return [
            (stream.path, alert) for rank, stream in self._streams.items() for alert in stream.poll(self._health, rank)
        ]

    def close(self) -> None:
        """Close the files."""
        for stream in self._streams.values():
            stream.follower.close()


class _WatchedStream:
    """One stream of a run."""

    def __init__(self, path: str, choice: DialectChoice) -> None:
        self.path = path
        self.follower = follow(path, until="forever", dialect=choice)
        self.has_ended = False
        self._time: float | None = None
        self._is_first = True
        self.last = time.monotonic()
        """When it grew last, by the monotonic clock."""
        if not is_address(path):
            with contextlib.suppress(OSError):
                self.last -= max(0.0, time.time() - os.stat(path).st_mtime)

    def poll(self, health: RecordHealth, rank: int) -> list[HealthAlert]:
        found: list[HealthAlert] = []
        for item in self.follower.new():
            if isinstance(item, Record):
                found += health.take(item, rank=rank)
                self.has_ended = item.end is not None
                self._time = item.time if item.time is not None else self._time
            if not self._is_first:
                self.last = time.monotonic()
        self._is_first = False
        if not self.has_ended:
            found += health.evaluator.idle(time.monotonic() - self.last, rank=rank, time=self._time)
        return found
