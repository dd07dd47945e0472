"""Several runs as one: which are together, in what order, and the mean of their curves with a band.

The viewer has the same in ``reference/viewer/src/groups.ts``; both answer as ``reference/viewer/test/groups.json``.
"""

from __future__ import annotations

import re
from itertools import groupby
from math import isfinite, isnan, nan, sqrt
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.core.format.numbers import number
from toyspec.core.runs.expressions import UNKNOWN, lowered
from toyspec.core.runs.run_facts import differing, number_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Band = Literal["sd", "se", "range", "quartiles"]
BANDS: dict[Band, str] = {"sd": "± 1 sd", "se": "± 1 standard error", "range": "min to max", "quartiles": "quartiles"}
"""What is around a mean, by the name of each choice; the first is the default. The sd is that of a sample, by n - 1."""

# Values that differ by less, as a share of the largest, differ by rounding alone.
_PRECISION = 8 * float_info.epsilon
_DIGITS = re.compile("([0-9]+)")


class Group(NamedTuple):
    """Runs that share values."""

    values: tuple[Any, ...]
    """One for each key, as the first of them has it."""
    members: list[int]
    """Their places among all runs."""


class Mean(NamedTuple):
    """The mean of several curves at the same places, with a band. NaN is where none of them has a value."""

    mean: list[float]
    low: list[float]
    high: list[float]
    number: list[int]
    """How many of the curves have a value."""


def groups_of(rows: Sequence[Sequence[Any]]) -> list[Group]:
    """Return the groups of runs with equal values; each of *rows* has the values of a run, one for each key.

    Groups are in the order of their values: numbers by size, then false and true, then text, in which numbers count
    as such, and none at the end. Equal numbers are one value; a number, a boolean and a text never are.
    """
    ranked = [tuple(map(_rank, row)) for row in rows]
    order = sorted(range(len(rows)), key=ranked.__getitem__)
    found = [list(members) for _, members in groupby(order, key=ranked.__getitem__)]
    return [Group(tuple(rows[members[0]]), members) for members in found]


def are_ordered(groups: Sequence[Group]) -> bool:
    """Return whether *groups* are by one number: their colours are a scale then."""
    ranks = [_rank(group.values[0])[0] for group in groups if len(group.values) == 1]
    return ranks.count(0) > 1 and {*ranks} <= {0, 3}


def group_name(keys: Sequence[str], group: Group) -> str:
    """Return what a *group* by the fields *keys* is called: ``lr 0.001, wd none, 5 runs``.

    A setting is named by the end of its name, unless two have the same.
    """
    ends = [key.rpartition(".")[2] if key.startswith("config.") else key for key in keys]
    names = ends if len({*ends}) == len(ends) else keys
    parts = [f"{name} {value_text(value)}" for name, value in zip(names, group.values, strict=True)]
    count = len(group.members)
    return ", ".join([*parts, f"{count} run{'' if count == 1 else 's'}"])


def value_text(value: Any) -> str:
    """Return the whole *value* of a field: a number as JavaScript writes it, ``none`` where there is none."""
    if value is None or value is UNKNOWN:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value) if number(value) is None else number_text(value)


def keys_without(settings: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Return the settings that differ between runs, but *name*: runs that share them differ in *name* alone.

    A text that is another one in every run, such as the path of its output, does not count.
    """
    differ = differing(settings)
    kept = [key for key in dict.fromkeys(key for each in settings for key in each) if key in differ]
    return [f"config.{key}" for key in kept if not (is_named(key, name) or _is_of_each(settings, key))]


def is_named(setting: str, name: str) -> bool:
    """Return whether *name* is a *setting*, with or without ``config.``, or the end of its name."""
    return f".{setting}".endswith(f".{name.removeprefix('config.')}")


def _is_of_each(settings: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = {each.get(key) for each in settings}
    return len(values) == len(settings) and all(isinstance(value, str) for value in values)


def _rank(value: Any) -> tuple[Any, ...]:
    if value is None or value is UNKNOWN:
        return (3,)
    if isinstance(value, bool):
        return (1, value)
    if (known := number(value)) is not None:
        return (0, known)
    text = value_text(value)
    parts = [
        (len(part.lstrip("0")), part.lstrip("0")) if at % 2 else (0, lowered(part))
        for at, part in enumerate(_DIGITS.split(text))
    ]
    return (2, parts, text)


def mean_of(
    rows: Sequence[Sequence[float]],
    band: Band = "sd",
    extremes: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]] | None = None,
) -> Mean:
    """Return the mean at each place of *rows*, the values of several curves there, NaN where one has none.

    It lies within the values, and is one number where they differ by rounding alone. The band of one value is that
    value. For the *band* ``range``, *extremes* are the lowest and the highest values of the curves, if they are known.
    """
    found = Mean([], [], [], [])
    lows, highs = extremes or (rows, rows)
    for at, values in enumerate(zip(*rows, strict=True)):
        known = [value for value in values if isfinite(value)]
        middle = mean_value(known)
        if band == "range":
            low = min((row[at] for row in lows if isfinite(row[at])), default=nan)
            high = max((row[at] for row in highs if isfinite(row[at])), default=nan)
        else:
            low, high = _band(known, middle, band)
        for column, value in zip(found[:3], (middle, low, high), strict=True):
            column.append(value)
        found.number.append(len(known))
    scale = max((abs(value) for row in rows for value in row if isfinite(value)), default=0.0)
    mean, low_line, high_line = (settled(column, scale) for column in found[:3])
    if all(not high - low > _PRECISION * scale for low, high in zip(low_line, high_line, strict=True)):
        low_line = high_line = mean
    return Mean(mean, low_line, high_line, found.number)


def mean_value(values: Sequence[float]) -> float:
    """Return the mean of finite *values*, which is not beyond them; NaN without one."""
    if not values:
        return nan
    base, count = values[0], len(values)
    # Of equal values nothing is added, and no sum is infinite.
    total = base
    for value in values:
        total += value / count - base / count
    return min(max(total, min(values)), max(values))


def _band(values: Sequence[float], mean: float, band: Band) -> tuple[float, float]:
    if len(values) < 2:
        return mean, mean
    if band == "quartiles":
        ordered = sorted(values)
        return _quantile(ordered, 0.25), _quantile(ordered, 0.75)
    # Halves, and shares of the farthest, keep squares of the largest numbers finite.
    halves = [value / 2 - mean / 2 for value in values]
    far = max(map(abs, halves))
    if far == 0:
        return mean, mean
    total = 0.0
    for half in halves:
        total += (half / far) * (half / far)
    spread = 2 * (far * sqrt(total / (len(values) - 1)) / (sqrt(len(values)) if band == "se" else 1))
    return max(mean - spread, -float_info.max), min(mean + spread, float_info.max)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    left = int(place)
    return between(ordered[left], ordered[min(left + 1, len(ordered) - 1)], place - left)


def between(left: float, right: float, share: float) -> float:
    """Return the value on the line from *left* to *right*, and not beyond them; exactly theirs where they are equal."""
    if isnan(left) or isnan(right):
        return nan
    value = left + (right - left) * share
    if not isfinite(value):
        value = left * (1 - share) + right * share
    return min(max(value, min(left, right)), max(left, right))


def settled(values: Sequence[float], scale: float) -> list[float]:
    """Return derived *values*, as one number where they differ less than numbers as large as *scale* are precise."""
    known = [value for value in values if not isnan(value)]
    if not known or max(known) - min(known) > _PRECISION * scale:
        return list(values)
    return [value if isnan(value) else known[0] for value in values]


def resampled(places: Sequence[float], values: Sequence[float], wanted: Sequence[float], first: float) -> list[float]:
    """Return the *values* of a curve at *wanted* places: both, and its own *places*, ascend.

    Between two points it is on the line, from *first*, where the first point begins, on. NaN before that, after the
    last, and beside a value that is NaN.
    """
    found, at, end = [], 0, len(places)
    for place in wanted:
        while at < end and places[at] < place:
            at += 1
        if at == end:
            found.append(nan)
        elif places[at] == place or at == 0:
            found.append(values[at] if places[at] == place or place >= first else nan)
        else:
            share = (place - places[at - 1]) / (places[at] - places[at - 1])
            found.append(between(values[at - 1], values[at], share))
    return found


def incomplete(numbers: Sequence[int], total: int) -> list[tuple[int, int, int]]:
    """Return where some of *total* members are missing: from which place to before which, and how many are there."""
    found, begin = [], 0
    for count, same in groupby(numbers):
        end = begin + len(list(same))
        if 0 < count < total:
            found.append((begin, end, count))
        begin = end
    return found
