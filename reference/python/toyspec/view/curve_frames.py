"""The frames that the curves of a run travel in, made from their buckets: see PROTOCOL.md of the viewer."""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from functools import lru_cache
from itertools import compress
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.generated.runs import TOKEN_COUNTS
from toyspec.view.pyramids import Buckets, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toyspec.view.curve_store import Curves

    Deepen = Callable[[int, int], Buckets | None]

Axis = Literal["step", "time", "epoch", "tokens"]
AXES: tuple[Axis, ...] = ("step", "time", "epoch", "tokens")

_FIGURES = ("min", "max", "mean")
_UNIT = 8
# Of normal numbers of binary32, and of the height of a picture.
_LEAST, _MOST, _PIXEL = 2.0**-126, 2.0**127, 2.0**-12


class Request(NamedTuple):
    """Which part of a curve is wanted, and how."""

    axes: tuple[Axis, ...]
    buckets: int
    low: float | None = None
    high: float | None = None

    @property
    def is_whole(self) -> bool:
        """True for all of a curve."""
        return self.low is None and self.high is None


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
    # Each point has a step: its buckets by step may be those that were halved before.
    most = request.buckets if request.is_whole and request.axes == ("step",) else None
    found = curves.latest(metric, most)
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
        yield _frame(latest, chosen, None, request, tokens)
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
        yield _frame(abandoned, joined, counts, request, tokens)


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
    columns = buckets.columns["step"], tokens.columns["step"], tokens.columns["last"]
    return _token_places(*(column.tobytes() for column in columns))


# Most metrics of a run have the same steps, and each asks several times.
@lru_cache(maxsize=32)
def _token_places(steps: bytes, token_steps: bytes, totals: bytes) -> array[float]:
    known, figures = array("d", token_steps), array("d", totals)
    return array("d", [figures[min(bisect_left(known, step), len(known) - 1)] for step in array("d", steps)])


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
    if request.is_whole and (whole.level == 1 or 2 * whole.number >= request.buckets):
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
    header: dict[str, Any], buckets: Buckets, counts: array[float] | None, request: Request, tokens: Buckets | None
) -> bytes:
    columns: dict[str, tuple[str | list[float], bytes]] = {
        axis: _sent(places(buckets, axis, tokens), "d") for axis in request.axes
    }
    names = _FIGURES if buckets.level > 1 or counts is not None else ("mean",)
    code: Literal["d", "f"] = "f" if request.is_whole and buckets.level > 1 and _fits_binary32(buckets) else "d"
    columns |= {name: _sent(buckets.columns[name], code) for name in names}
    if counts is not None:
        columns["count"] = _sent(counts, "d")
    elif buckets.tail != buckets.level:
        header |= {"tail": buckets.tail}
    others = buckets.columns["nan"]
    if any(others):
        header |= {"nan": [(at, int(others[at])) for at in compress(range(len(others)), others)]}
    header |= {"columns": {name: form for name, (form, _) in columns.items()}}
    return frame(header, [data for _, data in columns.values()])


def _fits_binary32(buckets: Buckets) -> bool:
    """Return whether binary32 keeps every value to the pixel in a picture of all: it has 24 bits for each."""
    low, high = min(buckets.columns["min"]), max(buckets.columns["max"])
    most = max(abs(low), abs(high))
    if not (most < _MOST and high - low >= most * _PIXEL):
        return False
    if low > 0 or high < 0:
        return min(abs(low), abs(high)) >= _LEAST
    return all(abs(value) >= _LEAST for name in _FIGURES for value in filter(None, buckets.columns[name]))


def _sent(column: array[float], code: Literal["d", "f"]) -> tuple[str | list[float], bytes]:
    """Return how a column is sent, and its bytes: numbers of equal distance by three of them, others as *code* says."""
    before_last = max(0, len(column) - 2)
    if column:
        first, last = column[0], column[-1]
        difference = column[min(1, before_last)] - first
        may_be = first + before_last * difference == column[before_last] and isfinite(first + difference + last)
        if may_be and _has_equal_distances(column.tobytes(), difference):
            return [first, difference, last], b""
    values = column if code == "d" else array("f", column)
    if sys.byteorder != "little":
        values = array(code, values)
        values.byteswap()
    data = values.tobytes()
    return f"f{values.itemsize}", data + bytes(-len(data) % _UNIT)


# Most curves of a run, and of all runs of a sweep, have the same places.
@lru_cache(maxsize=32)
def _has_equal_distances(data: bytes, difference: float) -> bool:
    """Return whether all numbers but the last are, to the bit, the first and so many times *difference*."""
    numbers = array("d", data)
    first, count = numbers[0], len(numbers) - 1
    return array("d", [first + at * difference for at in range(count)]).tobytes() == data[: count * _UNIT]


def frame(header: dict[str, Any], columns: Iterable[bytes] = ()) -> bytes:
    """Return a frame of *header* and the bytes of the *columns* that it names."""
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % _UNIT)
    body = b"".join(columns)
    return struct.pack("<II", len(text), len(body)) + text + body
