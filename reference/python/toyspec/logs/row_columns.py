"""What the lines of a table say, by columns: steps, times, epochs, phases and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.logs.mapping import UNIX_SECONDS, count_of, not_finite, prefix_of, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.format.record_mapping import TimeOrigin
    from toyspec.logs.mapping import Mapping, ReadAs
    from toyspec.logs.plain_tables import PlainTable

_MAX_STEP = 1 << 63
_NUMBERS = frozenset([int, float])


class RowColumns(NamedTuple):
    """Each has one value for each line; None where no line has it."""

    steps: Sequence[int] | None
    times: Sequence[float] | None
    """Seconds, since ``time_origin``."""
    time_origin: TimeOrigin | None
    epochs: Sequence[int | float] | None
    phases: Sequence[str] | None
    metrics: dict[str, Sequence[int | float]]
    """The values of each metric; all are finite."""
    unused: int
    """Number of members that are none of these."""


def columns_of(table: PlainTable, read_as: ReadAs, mapping: Mapping) -> RowColumns | None:
    """Return what *table* says, as *mapping* does line by line; None for what only that can read."""
    members = dict(zip(table.names, table.columns, strict=True))
    if read_as.dialect.skip and read_as.dialect.skip in members:
        return None
    types = {name: frozenset(map(type, column)) for name, column in members.items()}
    metrics = {}
    for name, column in members.items():
        metric = mapping.metric_name(name)
        if metric is None:
            continue
        if types[name] <= _NUMBERS:
            metrics[metric] = column
        elif str in types[name] and any(not_finite(text) is not None for text in column):
            return None
    times, origin = None, None
    if read_as.time is not None and read_as.time.key in members:
        found = _times(members[read_as.time.key], read_as.time.unit)
        if found is None:
            return None
        times, origin = found
    used = {read_as.step, read_as.epoch, read_as.phase, read_as.time.key if read_as.time else None}
    steps, epochs = (_counts(key, members, types) for key in (read_as.step, read_as.epoch))
    phases = members.get(read_as.phase) if read_as.phase is not None else None
    if epochs == () or not _are_steps(steps) or (phases is not None and types[read_as.phase or ""] != {str}):
        return None
    if phases is not None and any(map(prefix_of, set(phases))):
        # The names of metrics differ from row to row.
        return None
    unused = len(members.keys() - used) - len(metrics)
    return RowColumns(steps, times, origin, epochs, phases, metrics, unused)


def _counts(
    key: str | None, members: dict[str, Sequence[Any]], types: dict[str, frozenset[type]]
) -> Sequence[Any] | None:
    """Return the steps or epochs in the member *key*, None if there is none; empty if not all are finite numbers."""
    if key is None or key not in members:
        return None
    if types[key] == {int}:
        return members[key]
    found = list(map(count_of, members[key])) if types[key] <= _NUMBERS else [None]
    return () if None in found else found


def _are_steps(steps: Sequence[Any] | None) -> bool:
    """Return whether *steps* are integers of 64 bits; None are."""
    return steps is None or ({int} == set(map(type, steps)) and max(steps) < _MAX_STEP and min(steps) > -_MAX_STEP)


def _times(column: Sequence[Any], unit: str) -> tuple[list[float], TimeOrigin] | None:
    """Return the times in *column* and their origin; None if one is not a time, or they have several origins."""
    is_seconds = unit in ("unix", "unix-seconds", "any") and _NUMBERS.issuperset(map(type, column))
    if is_seconds and UNIX_SECONDS[0] <= min(column) and max(column) < UNIX_SECONDS[1]:
        return list(map(float, column)), "unix"
    found = [time_of(value, unit) for value in column]  # type: ignore[arg-type]
    origins = {each[1] for each in found if each is not None}
    if None in found or len(origins) != 1:
        return None
    return [each[0] for each in found if each is not None], origins.pop()
