"""Compares a whole log with health rules."""

from __future__ import annotations

import heapq
import os
from typing import TYPE_CHECKING, Any

from toyspec.core.errors import ToyspecError
from toyspec.core.format.numbers import number
from toyspec.core.places.addresses import public
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.stream_files import locate_stream
from toyspec.health.alerts import HealthAlert, Incidents
from toyspec.health.evaluator import HealthEvaluator
from toyspec.health.rules import LEVELS, project_rules, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toyspec.core.reading.configuration import Configuration
    from toyspec.core.reading.records import Record
    from toyspec.health.rules import AnyRule


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
    """Yield the alerts of the stream at *path*, each with the path of its stream: that, or the one of a rank beside it.

    Raises as ``check_health`` does.
    """
    streams = {0: path, **ranks_beside(path)}
    is_several = len(streams) > 1
    record_health = RecordHealth(rules, several=is_several)
    for rank, record in _records(streams, choice):
        for alert in record_health.take(record, rank=rank):
            # What the log itself reports may name a rank that has no stream here.
            yield streams.get(rank if alert.rank is None else alert.rank, streams[rank]), alert


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

    def __init__(self, rules: Sequence[AnyRule], *, several: bool = False) -> None:
        self._evaluator = HealthEvaluator(rules, several=several)
        self._several = several
        self._reported: set[tuple[str, str, str | None, int | float | None]] = set()

    def take(self, record: Record, *, rank: int = 0) -> list[HealthAlert]:
        """Return the alerts that *record* begins or ends, or has; one that was evaluated before is not there again."""
        found = self._evaluator.take(record, rank=rank)
        for alert in found:
            self._reported.add(_identity(alert))
        if record.kind == "alert" and record.profile == "toy/v1":
            recorded = recorded_alert(record, rank if self._several else None)
            if recorded is not None and _identity(recorded) not in self._reported:
                found.append(recorded)
        return found


def _identity(alert: HealthAlert) -> tuple[str, str, str | None, int | float | None]:
    return (alert.rule, alert.event, alert.metric, alert.step)


def recorded_alert(record: Record, rank: int | None = None) -> HealthAlert | None:
    """Return the alert that an ``alert`` event has; None where the event is not valid."""
    value = record.value
    rule, level, text = value.get("rule"), value.get("level"), value.get("text")
    if not isinstance(rule, str) or level not in LEVELS or not isinstance(text, str):
        return None
    metric = value.get("metric")
    return HealthAlert(
        rule=rule,
        level=level,
        text=text,
        event="recovered" if value.get("event") == "recovered" else "begun",
        metric=metric if isinstance(metric, str) else None,
        value=number(value.get("value")),
        threshold=number(value.get("threshold")),
        step=record.step,
        time=record.time,
        rank=value.get("rank") if type(value.get("rank")) is int else rank,
        line=record.line,
        offset=record.offset,
    )


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
