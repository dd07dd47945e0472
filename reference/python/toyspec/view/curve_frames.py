"""The frames that the curves of a run travel in, made from their buckets: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from itertools import chain, repeat
from math import isfinite, nan
from operator import add, gt, mul, sub, truediv
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.generated.runs import TOKEN_COUNTS
from toyspec.view.pyramids import Buckets, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from toyspec.view.curve_store import Curves

    Deepen = Callable[[int, int], Buckets | None]
    Encoded = tuple[dict[str, Any], bytes]

Axis = Literal["step", "time", "epoch", "tokens"]
AXES: tuple[Axis, ...] = ("step", "time", "epoch", "tokens")

# Pairs are shorter than a column where at most one bucket of so many has values that are not finite.
_SPARSE = 4
_FIGURES = ("last", "min", "max", "mean")
_UNIT = 8
_DIVISORS = tuple(10.0**digits for digits in range(10))
_NO_INTEGER = -(1 << 31)
# So many values decide by what all are divided.
_TRIED = 16
_FEW = 8
# The part of the height of a bucket by which its mean may be rounded.
_UNSEEN = 1e-3


class Request(NamedTuple):
    """Which part of a curve is wanted, and how."""

    axes: tuple[Axis, ...]
    buckets: int
    low: float | None = None
    high: float | None = None

    @property
    def is_whole(self) -> bool:
        """True for all of a curve by step: each point has one, so its buckets may be those that were halved before."""
        return self.axes == ("step",) and self.low is None and self.high is None


def curve_frames(  # noqa: PLR0913 - each has its own source
    curves: Curves,
    run: str,
    metric: str,
    request: Request,
    tokens: Buckets | None,
    *,
    deepen: Deepen | None = None,
) -> Iterator[bytes]:
    """Yield the frames of a curve of *curves*, which are those of *run*; *tokens* are what ``tokens_of`` returns.

    *deepen* returns finer buckets of the file for the span of some buckets.
    """
    axis = request.axes[0]
    found = curves.latest(metric, request.buckets if request.is_whole else None)
    header = {"run": run, "metric": metric, "axes": list(request.axes), "revision": str(curves.identity[2])}
    if found is not None and found.number:
        whole, unplaced = _placed(found, axis, tokens)
        chosen = _chosen(whole, request, tokens, deepen)
        alerts = [alert for alert in curves.alerts if alert.get("metric", metric) == metric]
        gaps, resumes, alerts = (
            [_mark(mark, tokens, request.axes) for mark in marks] for marks in (curves.gaps, curves.resumes, alerts)
        )
        latest = {
            **header,
            "attempt": "latest",
            "points": whole.points,
            "level": chosen.level,
            "buckets": chosen.number,
            "range": _range(whole, request.axes, tokens, curves.first(metric)),
            **({"unplaced": unplaced} if unplaced else {}),
            "gaps": gaps,
            "resumes": resumes,
            **({"alerts": alerts} if alerts else {}),
            "best": _best(curves.best(metric), found, tokens, request.axes),
        }
        yield _frame(latest, chosen, None, (request.axes, tokens))
    if stretches := curves.abandoned(metric):
        joined, counts = _joined([each.fitting(max(2, request.buckets)) for each in stretches])
        abandoned = {
            **header,
            "attempt": "abandoned",
            "points": sum(each.points for each in stretches),
            "level": joined.level,
            "buckets": joined.number,
            "range": _range(joined, request.axes, tokens, None),
        }
        yield _frame(abandoned, joined, counts, (request.axes, tokens))


def tokens_of(curves: Curves, axes: Sequence[Axis]) -> Buckets | None:
    """Return the number of tokens of a run up to each bucket; None without them, or where no axis of *axes* is theirs.

    Adding them up costs as much as several curves: do it once for all metrics of a run.
    """
    if "tokens" not in axes:
        return None
    name = next((name for name in TOKEN_COUNTS if name in curves.metrics), None)
    tokens = None if name is None else curves.latest(name)
    return None if tokens is None else token_totals(tokens)


def token_totals(tokens: Buckets) -> Buckets:
    """Return *tokens* with the number of tokens up to the end of each bucket as ``last``.

    A count that rises at every point is such a number already. Another one is that of each step, as ``tokens`` of
    toy/v1, and is added up.
    """
    points = [tokens.level - others for others in tokens.columns["nan"]]
    if points:
        points[-1] += tokens.tail - tokens.level
    if _rises(tokens.columns, points):
        return tokens
    totals, total = array("d"), 0.0
    for mean, number in zip(tokens.columns["mean"], points, strict=True):
        if number:
            total += mean * number
        totals.append(total)
    return Buckets({**tokens.columns, "last": totals}, tokens.level, tokens.tail)


def _rises(columns: Mapping[str, array[float]], points: Sequence[float]) -> bool:
    """Return whether each bucket with finite *points* is above the one before, and its last point its highest."""
    before = -1.0
    for low, high, last, number in zip(columns["min"], columns["max"], columns["last"], points, strict=True):
        if number:
            if low <= before or high > last or (low == high and number > 1):
                return False
            before = last
    return True


def places(buckets: Buckets, axis: Axis, tokens: Buckets | None) -> array[float]:
    """Return the place of each bucket on *axis*, NaN where it has none."""
    if axis != "tokens":
        return buckets.columns[axis]
    if tokens is None or not tokens.number:
        return array("d", [nan] * buckets.number)
    steps, figures = tokens.columns["step"], tokens.columns["last"]
    return array("d", [figures[min(bisect_left(steps, step), len(steps) - 1)] for step in buckets.columns["step"]])


def _placed(buckets: Buckets, axis: Axis, tokens: Buckets | None) -> tuple[Buckets, int]:
    """Return the buckets that have a place on *axis*, and the number of points of the others."""
    found = places(buckets, axis, tokens)
    if isfinite(sum(found)):
        return buckets, 0
    wrong = [at for at, place in enumerate(found) if not isfinite(place)]
    if not wrong:
        return buckets, 0
    kept = [at for at, place in enumerate(found) if isfinite(place)]
    is_last_there = bool(kept) and kept[-1] == buckets.number - 1
    columns = {name: array("d", [column[at] for at in kept]) for name, column in buckets.columns.items()}
    chosen = Buckets(columns, buckets.level, buckets.tail if is_last_there else buckets.level)
    return chosen, buckets.points - chosen.points


def _chosen(whole: Buckets, request: Request, tokens: Buckets | None, deepen: Deepen | None) -> Buckets:
    """Return the buckets of the range that was asked for, as many as were asked for or half as many, or all points."""
    if request.low is None and request.high is None and (whole.level == 1 or 2 * whole.number >= request.buckets):
        return whole.fitting(request.buckets)
    axis = request.axes[0]
    low = -float("inf") if request.low is None else request.low
    high = float("inf") if request.high is None else request.high
    begin, end = span(places(whole, axis, tokens), low, high)
    chosen = whole.part(begin, end)
    if chosen.level > 1 and 2 * chosen.number < request.buckets and deepen is not None:
        finer = deepen(begin, end)
        if finer is not None and finer.number:
            finer, _ = _placed(finer, axis, tokens)
            chosen = finer.part(*span(places(finer, axis, tokens), low, high))
    return chosen.fitting(request.buckets)


def _range(
    buckets: Buckets, axes: Sequence[Axis], tokens: Buckets | None, first: tuple[float, float, float] | None
) -> dict[str, list[float]]:
    """Return the first and the last place on each axis; a bucket has that of its last point, *first* the first."""
    found: dict[str, list[float]] = {}
    for axis in axes:
        ordered = places(buckets, axis, tokens)
        earliest = next(filter(isfinite, ordered), None)
        if earliest is not None:
            found[axis] = [earliest, next(filter(isfinite, reversed(ordered)))]
            if first is not None and axis != "tokens":
                begin = first[AXES.index(axis)]
                found[axis][0] = begin if isfinite(begin) else earliest
    return found


def _mark(mark: dict[str, Any], tokens: Buckets | None, axes: Sequence[Axis]) -> dict[str, Any]:
    at: dict[str, Any] = {axis: mark.get(axis) for axis in axes}
    if "tokens" in at:
        at["tokens"] = tokens_at(tokens, mark.get("step"))
    return at | {name: mark[name] for name in ("line", "offset", "length", "rule", "level") if name in mark}


def tokens_at(tokens: Buckets | None, step: float | None) -> float | None:
    """Return the number of tokens up to *step*; None where one of the two is not known."""
    return None if tokens is None or step is None else _at_step(tokens, step, "tokens", tokens)


def _best(
    best: tuple[int, float] | None, buckets: Buckets, tokens: Buckets | None, axes: Sequence[Axis]
) -> dict[str, Any] | None:
    if best is None:
        return None
    step, value = best
    found = {axis: step if axis == "step" else _at_step(buckets, step, axis, tokens) for axis in axes}
    return found | {"value": value}


def _at_step(buckets: Buckets, step: float, axis: Axis, tokens: Buckets | None) -> float | None:
    steps = buckets.columns["step"]
    if not steps:
        return None
    place = places(buckets, axis, tokens)[min(bisect_left(steps, step), len(steps) - 1)]
    return place if isfinite(place) else None


def _joined(stretches: list[Buckets]) -> tuple[Buckets, array[float]]:
    """Return the buckets of all *stretches* with an empty one between them, and the number of points of each."""
    columns = {name: array("d") for name in stretches[0].columns}
    counts = array("d")
    for stretch in stretches:
        if counts:
            for name, column in columns.items():
                column.append(stretch.columns[name][0] if name in ("step", "time", "epoch") else nan)
            columns["nan"][-1] = 0.0
            counts.append(0.0)
        for name, column in columns.items():
            column.extend(stretch.columns[name])
        counts.extend([float(stretch.level)] * (stretch.number - 1) + [float(stretch.tail)])
    return Buckets(columns, max(each.level for each in stretches), int(counts[-1])), counts


def _frame(
    header: dict[str, Any],
    buckets: Buckets,
    counts: array[float] | None,
    axes: tuple[Sequence[Axis], Buckets | None],
) -> bytes:
    columns: dict[str, array[float]] = {axis: places(buckets, axis, axes[1]) for axis in axes[0]}
    names = _FIGURES if buckets.level > 1 or counts is not None else ("last",)
    figures = {name: buckets.columns[name] for name in names}
    constants: dict[str, float] = {"nan": 0}
    if all(map(_is_constant, figures.values())):
        constants |= {name: column[0] for name, column in figures.items()}
    else:
        columns |= figures
    tail: dict[str, float] = {}
    if counts is None:
        constants["count"] = buckets.level
        tail = {"count": buckets.tail} if buckets.tail != buckets.level else {}
    else:
        columns["count"] = counts
    if any(buckets.columns["nan"]):
        columns["nan"] = buckets.columns["nan"]
        del constants["nan"]
    encoded = list(_encoded(columns))
    more = {"columns": [each for each, _ in encoded], "constants": constants, **({"tail": tail} if tail else {})}
    return frame(header | more, [data for _, data in encoded])


def _is_constant(column: array[float]) -> bool:
    # NaN, which equals nothing, is not a constant.
    return bool(column) and column[0] == column[-1] and column.count(column[0]) == len(column)


def _encoded(columns: Mapping[str, array[float]]) -> Iterator[Encoded]:
    last, low, high = (columns.get(name) for name in ("last", "min", "max"))
    for name, column in columns.items():
        scale = _regular(column) if name == "step" else None
        if scale is not None:
            yield {"name": name, "type": "a0", "scale": scale}, b""
        elif name == "nan" and _SPARSE * (len(column) - column.count(0.0)) < len(column):
            pairs = [[at, points] for at, points in enumerate(column) if points]
            yield {"name": name, "type": "s0", "scale": list(chain.from_iterable(pairs))}, b""
        elif name == "mean" and low is not None and high is not None:
            yield mean_column(column, low, high)
        elif name == "last" or last is None or name not in _FIGURES or column.tobytes() != last.tobytes():
            yield exact_column(name, column)


def _regular(steps: array[float]) -> list[float] | None:
    """Return the first of *steps*, the gap between them, and the last, where all gaps but the last are equal."""
    if len(steps) < 3:
        return None
    gap = steps[1] - steps[0]
    # Beyond 2**53 integers and numbers of 64 bits differ.
    if gap < 1 or not steps[-1] < 1 << 53:
        return None
    expected = array("d", range(int(steps[0]), int(steps[0] + gap * (len(steps) - 1)), int(gap)))
    return [steps[0], gap, steps[-1]] if expected == steps[:-1] else None


def frame(header: dict[str, Any], columns: Sequence[bytes] = ()) -> bytes:
    """Return a frame of *header* and the *columns* that it names."""
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % _UNIT)
    body = b"".join(column + bytes(-len(column) % _UNIT) for column in columns)
    return struct.pack("<II", len(text), len(body)) + text + body


def little(column: array[float]) -> bytes:
    """Return *column* as binary64, little-endian."""
    if sys.byteorder == "little":
        return column.tobytes()
    swapped = array("d", column)
    swapped.byteswap()
    return swapped.tobytes()


def exact_column(name: str, column: array[float]) -> Encoded:
    """Return the header and the bytes of *column*: in 4 bytes a value where they give the same numbers again.

    They do for what was computed in 32 bits, and for decimals of a few digits.
    """
    data = little(column)
    # Most columns are not of 32 bits from their first values on.
    if all(array("d", array("f", part)).tobytes() == part.tobytes() for part in (column[:_TRIED], column)):
        return _single(name, column)
    found = _quotients(column, data)
    if found is None:
        return {"name": name, "type": "f8"}, data
    numbers, divisor = found
    return {"name": name, "type": "i4", "scale": [divisor, 1]}, _little_bytes(numbers)


def mean_column(mean: array[float], low: array[float], high: array[float]) -> Encoded:
    """Return the header and the bytes of the *mean* of each bucket, which is not logged but computed.

    It may be rounded by a thousandth of the bucket's height, from *low* to *high*, which is not seen.
    """
    if _is_middle(mean, low, high):
        return {"name": "mean", "type": "m0"}, b""
    errors = map(abs, map(sub, array("f", mean), mean))
    if any(map(gt, errors, map(mul, map(sub, high, low), repeat(_UNSEEN)))):
        return exact_column("mean", mean)
    return _single("mean", mean)


def _is_middle(mean: array[float], low: array[float], high: array[float]) -> bool:
    """Return whether each mean is half of the sum of the lowest and the highest value, as it is of two points."""
    # Of longer buckets, the first ones say no.
    return all(
        mean[:count].tobytes() == array("d", map(truediv, map(add, low[:count], high[:count]), repeat(2.0))).tobytes()
        for count in (_FEW, len(mean))
    )


def _single(name: str, column: array[float]) -> Encoded:
    """Return the header and the bytes of *column* as binary32, to which it is rounded."""
    return {"name": name, "type": "f4"}, _little_bytes(array("f", column))


def _quotients(column: array[float], data: bytes) -> tuple[array[int], float] | None:
    """Return integers and what to divide them by to get *column*, whose bytes are *data*; None if there are none."""
    tried = [value for value in column[:: max(1, len(column) // _TRIED)] if isfinite(value)]
    divisor = next((each for each in _DIVISORS if all(_is_quotient(value, each) for value in tried)), None)
    if divisor is None:
        return None
    products = map(mul, column, repeat(divisor))
    try:
        numbers = array("i", map(round, products) if isfinite(sum(column)) else map(_integer, products))
    except (OverflowError, ValueError):
        return None
    values = array("d", map(truediv, numbers, repeat(divisor)))
    for at, number in enumerate(numbers if _NO_INTEGER in numbers else ()):
        if number == _NO_INTEGER:
            values[at] = nan
    return (numbers, divisor) if little(values) == data else None


def _integer(value: float) -> int:
    return round(value) if isfinite(value) else _NO_INTEGER


def _is_quotient(value: float, divisor: float) -> bool:
    return abs(value) * divisor < -_NO_INTEGER and round(value * divisor) / divisor == value


def _little_bytes(values: array[float] | array[int]) -> bytes:
    if sys.byteorder != "little":
        values.byteswap()
    return values.tobytes()
