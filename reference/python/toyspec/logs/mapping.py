"""Reads the step, time, epoch, phase and metrics out of a record of another program's log."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.core.findings import DialectUse
from toyspec.core.format.flattening import MOST_LEVELS
from toyspec.core.format.numbers import number
from toyspec.core.format.record_mapping import MILLISECONDS
from toyspec.core.reading.records import RowBlock
from toyspec.logs.dialects import Dialect, DialectTimeKey, TimeUnit

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from collections.abc import Mapping as StrMapping

    from toyspec.core.format.record_mapping import TimeOrigin


_NOT_FINITE_WORDS = {
    word: value
    for value, words in {
        float("nan"): ("nan", "+nan", "-nan"),
        float("inf"): ("inf", "+inf", "infinity", "+infinity"),
        -float("inf"): ("-inf", "-infinity"),
    }.items()
    for word in words
}
_MOST_WORD_CHARS = 9
_OWN_PHASES = frozenset(["", "train", "training"])
UNIX_SECONDS = (1e8, 1e11)
"""From where to where a number is taken for Unix seconds, where a log does not say what its times are."""
_SCALES = ((UNIX_SECONDS[1], 1.0), (1e14, 1e-3), (1e17, 1e-6), (1e20, 1e-9))
_CLOCK = re.compile(r"(?:(\d{1,6}) days?, )?(\d{1,6}):([0-5]?\d):([0-5]?\d(?:\.\d+)?)", re.ASCII)
_DATE_LETTERS = 40
_FIRST_HOUR, _DAY = 3600.0, 86400.0
_NUMBERS = frozenset([int, float])
_WORDS = ({str}, {bool})
_MAX_INTEGER_FLOAT = 2.0**63


class ReadAs(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is read: its dialect, and the keys that were chosen among those that it allows."""

    dialect: Dialect
    step: str | None = None
    """Key of the step; None if the records have none."""
    time: DialectTimeKey | None = None
    epoch: str | None = None
    phase: str | None = None
    writer: str | None = None
    """Key of the number of the process that wrote a record, where a file has several."""
    is_in_epoch: bool = False
    """True if the step begins again with each epoch, so that it is counted on."""
    is_named: bool = False
    """True if the user named the dialect or the step."""
    notes: tuple[str, ...] = ()
    """What the user has to know of how it is read."""
    doubts: tuple[str, ...] = ()
    """Sentences on values that are left out since it is not known which curve they are of."""
    unread: tuple[str, ...] = ()
    """Members of the first records that are read as nothing, as a note says."""

    @property
    def use(self) -> DialectUse:
        """The choice, for a report."""
        return DialectUse(
            name=self.dialect.name,
            step=self.step,
            time=self.time.key if self.time else None,
            epoch=self.epoch,
            phase=self.phase,
            notes=self.notes,
            choice="named" if self.is_named else "guessed" if self.dialect.rank == "guess" else "recognized",
        )


class Neutral(NamedTuple):
    """What any log says in a record."""

    step: int | float | None
    time: float | None
    """Seconds; ``time_origin`` of the mapping says since when."""
    epoch: int | float | None
    phase: str | None
    values: dict[str, float | int | None]
    """The metrics by name: NaN and infinity as such, None for null."""


class EpochCount:
    """Counts steps on over epochs, of which the first known is *first*."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._last = -1, -1
        self._before, self._interval = 0, 1

    def step(self, outer: Any, size: Any, inner: Any) -> int | None:
        """Return the step of the place *inner* in the epoch *outer* of *size* steps; None if they are not counts.

        Without a size, a count that starts again with an epoch goes on after the last place of the epoch before.
        """
        if type(outer) is not int or type(inner) is not int:
            return None
        if type(size) is int:
            # Who counts epochs from 0 begins with it.
            self._first = min(self._first, outer) if outer >= 0 else self._first
            return (outer - self._first) * size + inner
        if size is not None:
            return None
        last, furthest = self._last
        if outer != last:
            if outer < last:
                # Another training.
                self._before = 0
            elif inner <= furthest:
                self._before += furthest + (0 if inner else self._interval)
            furthest = -1
        elif inner > furthest >= 0:
            self._interval = inner - furthest
        self._last = outer, max(inner, furthest)
        return self._before + inner


class Mapping:
    """Maps records of one file."""

    def __init__(self, read_as: ReadAs) -> None:
        self._read_as = read_as
        values = read_as.dialect.values
        self._values = values
        self._reads_text = "text" in read_as.dialect.non_finite
        self._keeps_null = "null" in read_as.dialect.non_finite
        own = [read_as.step, read_as.time.key if read_as.time else None, read_as.epoch, read_as.phase]
        self._own = {key for key in own if key is not None}
        self._except = frozenset(key for key in values.exclude if not key.endswith("/"))
        self._except_prefixes = tuple(key for key in values.exclude if key.endswith("/"))
        self._count = EpochCount(0) if read_as.is_in_epoch else None
        self._writer: Any = None
        self._clock: tuple[float, float] | None = None
        self._takes_all = not (values.prefix or values.exclude)
        self.time_origin: TimeOrigin | None = None
        """Origin of the times so far; None before the first one."""

    def neutral(self, members: StrMapping[str, Any]) -> Neutral:
        """Return what a record with the flattened *members* says; never raises."""
        read_as = self._read_as
        if read_as.dialect.skip and read_as.dialect.skip in members:
            return Neutral(None, None, None, None, {})
        values = self._metric(members) if self._values.name else self._metrics(members)
        phase = members.get(read_as.phase) if read_as.phase is not None else None
        phase = phase if isinstance(phase, str) else None
        writer = members.get(read_as.writer) if read_as.writer is not None else None
        self._writer = writer if self._writer is None else self._writer
        if writer != self._writer:
            # The first writer has the plain names.
            phase = f"{read_as.writer}{writer}" + (f"/{phase}" if phase else "")
        prefix = "" if phase is None else prefix_of(phase)
        step = count_of(members.get(read_as.step)) if read_as.step is not None else None
        epoch = count_of(members.get(read_as.epoch)) if read_as.epoch is not None else None
        return Neutral(
            step if self._count is None else self._count.step(epoch, None, step),
            self._time(members),
            epoch,
            phase,
            {_in_phase(name, prefix, values): metric for name, metric in values.items()} if prefix else values,
        )

    def block(
        self, number: int, offset: int, lines: Sequence[bytes], objects: Sequence[dict[str, Any]]
    ) -> RowBlock | None:
        """Return the block of *lines* from *number* and *offset* on, which are *objects* with the same members.

        None for what ``neutral`` reads otherwise than by columns.
        """
        read_as = self._read_as
        columns: dict[str, Sequence[Any]] = {}
        is_whole = self._count is None and read_as.writer is None and _take_columns(objects, "", columns, MOST_LEVELS)
        if not is_whole or (read_as.dialect.skip or None) in columns:
            return None
        metrics = {}
        for name, column in columns.items():
            metric = self.metric_name(name)
            if metric is None:
                continue
            if type(column[0]) in _NUMBERS:
                metrics[metric] = column
            elif type(column[0]) is str and any(not_finite(text) is not None for text in column):
                return None
        times, origin = None, None
        if read_as.time is not None and read_as.time.key in columns:
            found = _times(columns[read_as.time.key], read_as.time.unit)
            if found is None:
                return None
            times, origin = found
        used = {read_as.step, read_as.epoch, read_as.phase, read_as.time.key if read_as.time else None}
        steps, epochs = (None if key is None else _counts(columns.get(key)) for key in (read_as.step, read_as.epoch))
        phases = None if read_as.phase is None else columns.get(read_as.phase)
        if epochs == () or not _are_steps(steps) or (phases is not None and type(phases[0]) is not str):
            return None
        if phases is not None and any(map(prefix_of, set(phases))):
            # The names of metrics differ from row to row.
            return None
        unused = len(columns.keys() - used) - len(metrics)
        return RowBlock(number, offset, lines, objects, columns, steps, times, origin, epochs, phases, metrics, unused)

    def metric_name(self, key: str) -> str | None:
        """Return the name of the metric in the member *key*; None if it is not one."""
        if key in self._own or key in self._except or not key.startswith(self._values.prefix):
            return None
        if self._except_prefixes and key.startswith(self._except_prefixes):
            return None
        return key[len(self._values.prefix) :]

    def is_metric(self, key: str, member: Any) -> bool:
        """Return whether the flattened *member* by *key* is a metric of a record that has one in each such member."""
        return self.metric_name(key) is not None and self._number(member)[0]

    def _time(self, members: StrMapping[str, Any]) -> float | None:
        key = self._read_as.time
        if key is None:
            return None
        found = time_of(members.get(key.key), key.unit)
        if found is None:
            return None
        self.time_origin = found[1]
        return found[0] if key.unit != "any" or type(members[key.key]) is not str else self._of_day(*found)

    def _of_day(self, seconds: float, origin: TimeOrigin) -> float:
        """Return the seconds since the first time of day; *seconds* of another *origin*, and durations, unchanged."""
        first, last = self._clock or (seconds if origin == "run" and seconds >= _FIRST_HOUR else 0.0, seconds)
        # Midnight.
        first -= _DAY if first and seconds < last else 0.0
        self._clock = first, seconds
        return seconds - first

    def _metrics(self, members: StrMapping[str, Any]) -> dict[str, float | int | None]:
        if self._takes_all and _NUMBERS.issuperset(map(type, members.values())):
            own = self._own
            return {key: member for key, member in members.items() if key not in own}
        found: dict[str, float | int | None] = {}
        for key, member in members.items():
            name = self.metric_name(key)
            if name is None:
                continue
            is_there, metric = self._number(member)
            if is_there:
                found[name] = metric
        return found

    def _metric(self, members: StrMapping[str, Any]) -> dict[str, float | int | None]:
        keys = (self._values.name, *self._values.names)
        name = next((found for key in keys if (found := members.get(key)) is not None), None)
        is_there, metric = self._number(members.get(self._values.value))
        if name is None and self._read_as.dialect.rank != "program":
            # A value without a name, as in an empty cell, is one all the same.
            name = self._values.value
        return {name: metric} if isinstance(name, str) and is_there and self._values.value in members else {}

    def _number(self, member: Any) -> tuple[bool, float | int | None]:
        """Return whether *member* is a metric, and its value."""
        if type(member) is float or type(member) is int:
            return True, member
        if member is None:
            return self._keeps_null, None
        if self._reads_text and type(member) is str:
            value = not_finite(member)
            return value is not None, value
        return False, None


def prefix_of(phase: str) -> str:
    """Return what is before the names of the metrics of *phase*; those of training have nothing."""
    return "" if phase.strip().lower() in _OWN_PHASES else f"{phase}/"


def _in_phase(name: str, prefix: str, names: Container[str]) -> str:
    """Return the metric *name* with the *prefix* of its phase, unless it begins with the phase as a word.

    Of *names*, those of the record, no two become one: beside ``loss``, which becomes ``val/loss``, ``val/loss`` has
    the prefix too.
    """
    word = prefix[:-1]
    begins = name.startswith(word) and not "a" <= name[len(word) : len(prefix)] <= "z"
    is_taken = name.startswith(prefix) and name[len(prefix) :] in names
    return name if begins and not is_taken else prefix + name


def not_finite(text: str) -> float | None:
    """Return NaN or an infinity if *text* spells one, else None."""
    return _NOT_FINITE_WORDS.get(text.strip().lower()) if len(text) <= _MOST_WORD_CHARS else None


def time_of(value: Any, unit: TimeUnit) -> tuple[float, TimeOrigin] | None:
    """Return *value* in seconds and their origin, ``unix`` or ``run``; None if it is not a time of this *unit*."""
    if isinstance(value, str):
        return _time_in_text(value, unit)
    seconds = number(value)
    if seconds is None or not -1e300 < seconds < 1e300:
        return None
    if unit == "unix-seconds":
        return float(seconds), "unix"
    if unit == "unix-milliseconds":
        return seconds / MILLISECONDS, "unix"
    if unit in ("unix", "any") and seconds >= UNIX_SECONDS[0]:
        scale = next((scale for limit, scale in _SCALES if seconds < limit), None)
        return None if scale is None else (seconds * scale, "unix")
    return (float(seconds), "run") if unit in ("run-seconds", "any") else None


def _time_in_text(text: str, unit: TimeUnit) -> tuple[float, TimeOrigin] | None:
    if len(text) > _DATE_LETTERS:
        return None
    if unit in ("run-clock", "run-seconds", "any"):
        match = _CLOCK.fullmatch(text)
        if match:
            days, hours, minutes, seconds = match.groups(default="0")
            return int(days) * 86400.0 + int(hours) * 3600.0 + int(minutes) * 60.0 + float(seconds), "run"
    if unit in ("date-time", "unix", "any"):
        try:
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), "unix"
        except (ValueError, OverflowError):
            return None
    return None


def count_of(value: Any) -> int | float | None:
    """Return a step or an epoch: an int if the number is one; None for one that is not finite."""
    found = number(value)
    if not isinstance(found, float):
        return found
    if found.is_integer() and abs(found) < _MAX_INTEGER_FLOAT:
        return int(found)
    return found if math.isfinite(found) else None


_MAX_STEP = 1 << 63


def _take_columns(objects: Sequence[dict[str, Any]], prefix: str, found: dict[str, Sequence[Any]], levels: int) -> bool:
    """Add the columns of *objects* to *found*, those of inner objects after their key and a slash.

    Return False if the objects have not the same members, each a number, a text or a truth.
    """
    names = tuple(objects[0])
    if not names or len({*map(tuple, objects)}) > 1:
        return False
    for name, column in zip(names, zip(*map(dict.values, objects), strict=True), strict=True):
        kinds = set(map(type, column))
        if kinds == {dict}:
            if not levels or not _take_columns(column, f"{prefix}{name}/", found, levels - 1):
                return False
        elif prefix + name in found or not (kinds <= _NUMBERS or kinds in _WORDS):
            return False
        else:
            found[prefix + name] = column
    return True


def _counts(column: Sequence[Any] | None) -> Sequence[Any] | None:
    """Return the steps or epochs in *column*, None without one; empty if not all are finite numbers."""
    if column is None or {int} == set(map(type, column)):
        return column
    found = list(map(count_of, column))
    return () if None in found else found


def _are_steps(steps: Sequence[Any] | None) -> bool:
    """Return whether *steps* are integers of 64 bits; None are."""
    return steps is None or ({int} == set(map(type, steps)) and max(steps) < _MAX_STEP and min(steps) > -_MAX_STEP)


def _times(column: Sequence[Any], unit: str) -> tuple[list[float], TimeOrigin] | None:
    """Return the times in *column* and their origin; None if one is not a time, or they have several origins."""
    is_seconds = unit in ("unix", "unix-seconds", "any") and _NUMBERS.issuperset(map(type, column))
    if is_seconds and UNIX_SECONDS[0] <= min(column) and max(column) < UNIX_SECONDS[1]:
        return list(map(float, column)), "unix"
    if unit == "any" and type(column[0]) is str and _CLOCK.fullmatch(column[0]):
        return None
    found = [time_of(value, unit) for value in column]  # type: ignore[arg-type]
    origins = {each[1] for each in found if each is not None}
    if None in found or len(origins) != 1:
        return None
    return [each[0] for each in found if each is not None], origins.pop()
