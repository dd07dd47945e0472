"""Every value of every metric of a run, as lines of JSON with lists: the members of ``tables.VALUES``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.format.record_mapping import mapping_of
from toyspec.reading.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.reading.log_detection import DialectChoice
    from toyspec.reading.records import Record
    from toyspec.runs.summary import RunSummary

_MOST_VALUES = 10_000
_MAX_STEP = 1 << 63


def values_of(summary: RunSummary, choice: DialectChoice, day: str | None = None) -> Iterator[bytes]:
    """Yield the values of the run of *summary*, those of its latest attempts: null where one was not finite."""
    head = {"stream": summary.path, "path": summary.directory, "run": summary.name, "day": day}
    held: dict[str, tuple[list[Any], list[Any], list[Any]]] = {}
    with read(summary.path, mode="salvage", dialect=choice) as reading:
        last: int | None = None
        for record in reading:
            if summary.attempts.are_values_abandoned(record):
                continue
            step, time, metrics = _points(record, summary, last)
            last = last if step is None else step
            for name, value in metrics.items():
                steps, times, values = held.setdefault(name, ([], [], []))
                steps.append(step)
                times.append(time)
                values.append(value)
                if len(values) >= _MOST_VALUES:
                    yield _line(head, name, held.pop(name))
    for name, lists in held.items():
        yield _line(head, name, lists)


def _points(record: Record, summary: RunSummary, last: int | None) -> tuple[int | None, float | None, dict[str, Any]]:
    """Return step, time and metrics of a record."""
    step, metrics = record.step, record.values
    if step is None:
        step = (last or 0) + 1 if metrics and mapping_of(record.profile).is_counted else last
    if record.kind == "step" and record.profile == "toy/v1" and not summary.attempts.is_own_step(record):
        metrics = {f"{record.get('phase')}/{name}": value for name, value in metrics.items()}
    is_step = type(step) is int and abs(step) < _MAX_STEP
    return int(step) if step is not None and is_step else None, record.time, metrics


def _line(head: dict[str, Any], name: str, lists: tuple[list[Any], list[Any], list[Any]]) -> bytes:
    steps, times, values = lists
    found = {**head, "metric": name, "step": steps, "time": times, "value": values}
    return msgspec.json.encode(found) + b"\n"
