"""What a mirror sends: rows, each from one record of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.convert.exported_runs import measures_of
from toyspec.format.numbers import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toyspec.mirrors.settings import Selecting
    from toyspec.reading.attempts import Attempts
    from toyspec.reading.records import Record


class SentHistogram(msgspec.Struct, frozen=True):
    """The distribution of the elements of a gradient."""

    counts: list[int]
    edges: list[float]
    """Borders of the bins, one more than there are."""


Value = float | SentHistogram | None
"""A number, None for null, or a histogram."""


class Point(NamedTuple):
    """One value of one metric."""

    line: int
    place: int
    """Place among the values of its record, counted from 0."""
    name: str
    value: Value
    step: int | None
    t: float


class SentAlert(NamedTuple):
    """An alert of the log."""

    rule: str
    level: str
    number: int
    """Number of alerts of this rule and level until here."""


class SentRow(NamedTuple):
    """The points of one record that are sent together, or a mark between points."""

    line: int
    step: int | None
    t: float
    """Seconds since the start of the run."""
    values: dict[str, Value]
    places: tuple[int, ...] = ()
    """Places of the values in their record."""
    resumes_after: int | None = None
    """The step after which training goes on again; None for other rows."""
    definition: dict[str, Any] | None = None
    """What a metric means, as in ``define``; None for other rows."""
    settings: dict[str, Any] | None = None
    """Settings that a resumption has changed; None for other rows."""
    alert: SentAlert | None = None
    """What an alert says; None for other rows."""


def row_of(points: list[Point]) -> SentRow:
    """Return the row of *points*, which are of one record."""
    first = points[0]
    values = {point.name: point.value for point in points}
    return SentRow(first.line, first.step, first.t, values, tuple(point.place for point in points))


def mark_of(record: Record) -> SentRow | None:
    """Return the row of a record that says something about points; None for all others."""
    value, t = record.value, record.time
    if record.kind == "run_resume" and type(value.get("from_step")) is int:
        changed = value.get("config")
        settings = changed if isinstance(changed, dict) and changed else None
        return SentRow(record.line, None, float(t or 0.0), {}, resumes_after=value["from_step"], settings=settings)
    if record.kind == "define" and isinstance(value.get("name"), str) and value["name"]:
        return SentRow(record.line, None, float(t or 0.0), {}, definition=value)
    return None


def points_of(record: Record, attempts: Attempts, select: Selecting) -> Iterator[Point]:
    """Yield every point of *record* of a run with *attempts*, by the name that it is sent with."""
    at = (None if record.step is None else int(record.step), float(record.time or 0.0))
    found: Iterable[tuple[str, Value]]
    if record.kind == "grad":
        histogram = _histogram(record.value)
        found = [] if histogram is None else [(f"gradients/{record.value.get('param')}", histogram)]
    elif record.kind == "step" and not _is_due(at[0], select.every):
        return
    else:
        found = measures_of(record, attempts)
    prefix = select.prefixes.get(record.kind or "")
    for index, (name, item) in enumerate(found):
        yield Point(record.line, index, _named(name, prefix, record), item, *at)


def _is_due(step: int | None, every: int) -> bool:
    return every > 0 and (step is None or not step % every)


def _named(name: str, prefix: str | None, record: Record) -> str:
    if prefix is None:
        return name
    return prefix + (name.removeprefix(f"{record.value.get('name')}/") if record.kind == "eval" else name)


def _histogram(value: dict[str, Any]) -> SentHistogram | None:
    counts, low, high = value.get("histogram"), number(value.get("min")), number(value.get("max"))
    if not isinstance(counts, list) or not counts or low is None or high is None:
        return None
    if not all(type(count) is int for count in counts):
        return None
    width = (high - low) / len(counts)
    return SentHistogram(counts, [*(low + width * index for index in range(len(counts))), float(high)])
