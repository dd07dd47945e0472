"""Makes the frames of a curve from its buckets."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import chain
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.view.buckets import Buckets, span
from toyspec.view.frames import exact_column, frame, mean_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toyspec.view.split_buckets import SplitBuckets

    Deepen = Callable[[int, int], Buckets | None]
    Encode = Callable[[Mapping[str, array[float]]], Iterable[tuple[dict[str, Any], bytes]]]

Axis = Literal["step", "time", "epoch", "tokens"]
AXES: tuple[Axis, ...] = ("step", "time", "epoch", "tokens")

# Pairs are shorter than a column where at most one bucket of so many has values that are not finite.
_SPARSE = 4
_FIGURES = ("last", "min", "max", "mean")


class FramedCurve(NamedTuple):
    """One curve of a run and what is known around it."""

    run: str
    metric: str
    revision: str
    buckets: Buckets | None
    abandoned: list[Buckets]
    tokens: Buckets | None
    """Its ``last`` is the number of tokens up to there."""
    gaps: list[dict[str, Any]]
    resumes: list[dict[str, Any]]
    alerts: list[dict[str, Any]]
    """Those about the metric, and those about none."""
    best: tuple[int, float] | None
    first: tuple[float, float, float] | None
    """Step, time and epoch of the first point."""
    split: SplitBuckets | None = None
    """What is drawn of the whole curve in place of its buckets."""


class Request(NamedTuple):
    """Which part of a curve is wanted, and how."""

    axes: tuple[Axis, ...]
    buckets: int
    low: float | None = None
    high: float | None = None


def curve_frames(
    curve: FramedCurve, request: Request, deepen: Deepen | None = None, encode: Encode | None = None
) -> Iterator[bytes]:
    """Yield the frames of *curve*; *deepen* returns finer buckets of the file for the span of some buckets."""
    encode = encode or _plain
    axis = request.axes[0]
    if curve.buckets is not None and curve.buckets.number:
        whole, unplaced = _placed(curve.buckets, axis, curve.tokens)
        chosen, counts = curve.split or (_chosen(whole, request, curve.tokens, deepen), None)
        header = {
            **_header(curve, "latest", request),
            "points": whole.points,
            "level": chosen.level,
            "buckets": chosen.number,
            "range": _range(whole, request.axes, curve.tokens, curve.first),
            **({"unplaced": unplaced} if unplaced else {}),
            "gaps": [_mark(gap, curve, request.axes) for gap in curve.gaps],
            "resumes": [_mark(mark, curve, request.axes) for mark in curve.resumes],
            **({"alerts": [_mark(mark, curve, request.axes) for mark in curve.alerts]} if curve.alerts else {}),
            "best": _best(curve, request.axes),
        }
        yield _frame(header, chosen, counts, (request.axes, curve.tokens), encode)
    if curve.abandoned:
        joined, counts = _joined([each.fitting(max(2, request.buckets)) for each in curve.abandoned])
        header = {
            **_header(curve, "abandoned", request),
            "points": sum(each.points for each in curve.abandoned),
            "level": joined.level,
            "buckets": joined.number,
            "range": _range(joined, request.axes, curve.tokens, None),
        }
        yield _frame(header, joined, counts, (request.axes, curve.tokens), encode)


def _header(curve: FramedCurve, attempt: str, request: Request) -> dict[str, Any]:
    return {
        "run": curve.run,
        "metric": curve.metric,
        "attempt": attempt,
        "axes": list(request.axes),
        "revision": curve.revision,
    }


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


def _mark(mark: dict[str, Any], curve: FramedCurve, axes: Sequence[Axis]) -> dict[str, Any]:
    at: dict[str, Any] = {axis: mark.get(axis) for axis in axes}
    if "tokens" in at and curve.tokens is not None and mark.get("step") is not None:
        at["tokens"] = _at_step(curve.tokens, mark["step"], "tokens", curve.tokens)
    return at | {name: mark[name] for name in ("line", "offset", "length", "rule", "level") if name in mark}


def _best(curve: FramedCurve, axes: Sequence[Axis]) -> dict[str, Any] | None:
    if curve.best is None or curve.buckets is None:
        return None
    step, value = curve.best
    found = {axis: step if axis == "step" else _at_step(curve.buckets, step, axis, curve.tokens) for axis in axes}
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
    encode: Encode,
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
    encoded = list(encode(columns))
    more = {"columns": [each for each, _ in encoded], "constants": constants, **({"tail": tail} if tail else {})}
    return frame(header | more, [data for _, data in encoded])


def _is_constant(column: array[float]) -> bool:
    # NaN, which equals nothing, is not a constant.
    return bool(column) and column[0] == column[-1] and column.count(column[0]) == len(column)


def _plain(columns: Mapping[str, array[float]]) -> Iterator[tuple[dict[str, Any], bytes]]:
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
