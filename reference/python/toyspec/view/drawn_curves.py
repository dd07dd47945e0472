"""The curves of a run as what is drawn of them in terminals and pictures: over any metric, smoothed, or their mean."""

from __future__ import annotations

from array import array
from functools import reduce
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.stream_files import locate_stream
from toyspec.view.curve_frames import AXES, places, tokens_of
from toyspec.view.pyramids import MOST_BUCKETS
from toyspec.view.scans import LiveCurves, ScannedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from toyspec.core.runs.summary import RunSummary
    from toyspec.view.curve_frames import Axis, Curves
    from toyspec.view.pyramids import Buckets


class Stretch(NamedTuple):
    """Successive buckets of a curve; each column has one value for each. NaN is a value that is not finite."""

    place: array[float]
    low: array[float]
    high: array[float]
    last: array[float]
    mean: array[float]
    not_finite: array[float]
    """Number of points that are not finite."""
    level: int
    """Number of points in a bucket."""


class DrawnCurve(NamedTuple):
    """One metric of one run."""

    latest: Stretch | None
    """The curve as the latest attempt made it; None if the run does not have the metric."""
    abandoned: list[Stretch]
    """What later attempts did again."""
    gaps: list[float]
    """Places of unreadable lines."""
    resumes: list[float]
    """Places that resumptions go on from."""
    first: float | None
    """Place of the first point, where it is known: the first bucket has that of its last point."""


def drawn_curve(curves: Curves, metric: str, axis: Axis = "step", most: int = MOST_BUCKETS) -> DrawnCurve:
    """Return what is drawn of *metric* over *axis*, in at most *most* buckets; points without a place are left out."""
    tokens, whole, begin = tokens_of(curves, (axis,)), curves.latest(metric), curves.first(metric)
    latest = None if whole is None else _stretch(whole.fitting(most), axis, tokens)
    abandoned = [_stretch(each.fitting(most), axis, tokens) for each in curves.abandoned(metric)]
    first = None if begin is None or axis == "tokens" else begin[AXES.index(axis)]
    known = first if first is not None and isfinite(first) else None
    return DrawnCurve(latest, abandoned, _known(curves.gaps, axis), _known(curves.resumes, axis), known)


def _known(marks: Iterable[Mapping[str, Any]], axis: Axis) -> list[float]:
    return [mark[axis] for mark in marks if mark.get(axis) is not None]


def _stretch(buckets: Buckets, axis: Axis, tokens: Buckets | None) -> Stretch:
    found = places(buckets, axis, tokens)
    kept = [at for at, place in enumerate(found) if isfinite(place)]
    columns = [found, *(buckets.columns[name] for name in ("min", "max", "last", "mean", "nan"))]
    place, low, high, last, mean, not_finite = (array("d", [column[at] for at in kept]) for column in columns)
    return Stretch(place, low, high, last, mean, not_finite, buckets.level)


def read_curves(
    path: str, *, wanted: Callable[[str], bool] | None = None, dialect: DialectChoice | None = None
) -> tuple[LiveCurves, RunSummary]:
    """Return the curves of the run at *path*, and its summary; *wanted* chooses metrics by name.

    Raises StreamError; damage is skipped.
    """
    choice = dialect or DialectChoice()
    stream = locate_stream(path, choice.stream_files)
    file = ScannedRun(stream, choice, wanted=wanted)
    try:
        file.read_whole()
        return LiveCurves(file), file.scan.summary
    finally:
        file.close()


def curve_over(path: str, metric: str, x: str, *, dialect: DialectChoice, most: int) -> DrawnCurve:
    """Return *metric* of the run at *path* over the metric *x*, in the order of steps, in at most *most* buckets.

    A value is where *x* is at its step, or was before. Raises ExpressionError if the run lacks one of them.
    """
    # Imported here: the charts of a terminal do without.
    from toyspec.core.runs.history import history

    # Over the step, so that a metric that is called as an axis is has its name.
    table = history(path, [metric, x], dialect=dialect)
    places, values = array("d"), array("d")
    place = nan
    for at, value in zip(table[x], table[metric], strict=True):
        place = float(at) if isinstance(at, int | float) else place
        if isinstance(value, int | float) and isfinite(place):
            places.append(place)
            values.append(float(value))
    return DrawnCurve(_bucketed(places, values, most) if places else None, [], [], [], places[0] if places else None)


def _bucketed(places: array[float], values: array[float], most: int) -> Stretch:
    level = -(-len(values) // most)
    found = Stretch(array("d"), array("d"), array("d"), array("d"), array("d"), array("d"), level)
    for begin in range(0, len(values), level):
        part = values[begin : begin + level]
        known = [value for value in part if isfinite(value)]
        found.place.append(places[min(begin + level, len(places)) - 1])
        found.low.append(min(known, default=nan))
        found.high.append(max(known, default=nan))
        found.last.append(part[-1] if isfinite(part[-1]) else nan)
        found.mean.append(sum(known) / len(known) if known else nan)
        found.not_finite.append(len(part) - len(known))
    return found


def smoothed(stretch: Stretch, weight: float) -> array[float]:
    """Return the values of *stretch* as an exponential moving average; *weight*, from 0 to 1, is that of one step."""
    kept = weight**stretch.level
    average, total = 0.0, 0.0
    found = array("d")
    for value in stretch.mean if stretch.level > 1 else stretch.last:
        if isfinite(value):
            average = kept * average + (1 - kept) * value
            total = kept * total + (1 - kept)
        found.append(average / total if isfinite(value) else value)
    return found


def mean_curve(curves: Sequence[DrawnCurve]) -> DrawnCurve:
    """Return the mean of *curves* at each place that one of them has, and how far the values reach there.

    Between two points of a run its value is on the line between them. Needs NumPy.
    """
    import numpy as np

    found = [each.latest for each in curves if each.latest is not None and len(each.latest.place)]
    if not found:
        return DrawnCurve(None, [], [], [], None)
    grid = np.unique(np.concatenate([np.asarray(each.place) for each in found]))
    values = np.array([_at(grid, each, each.mean if each.level > 1 else each.last) for each in found])
    known = np.isfinite(values)
    total = known.sum(axis=0)
    mean = np.where(total, np.where(known, values, 0.0).sum(axis=0) / np.maximum(total, 1), nan)
    low = reduce(np.fmin, [_at(grid, each, each.low) for each in found])
    high = reduce(np.fmax, [_at(grid, each, each.high) for each in found])
    missing = np.sum([np.bincount(np.searchsorted(grid, each.place), each.not_finite, len(grid)) for each in found], 0)
    place, least, greatest, average, none = (array("d", each.tolist()) for each in (grid, low, high, mean, missing))
    gaps = [place for each in curves for place in each.gaps]
    resumes = [place for each in curves for place in each.resumes]
    stretch = Stretch(place, least, greatest, average, average, none, max(each.level for each in found))
    return DrawnCurve(stretch, [], gaps, resumes, float(grid[0]))


def _at(grid: Any, stretch: Stretch, values: Sequence[float]) -> Any:
    import numpy as np

    places, numbers = np.asarray(stretch.place), np.asarray(values)
    is_known = np.isfinite(numbers)
    if not is_known.any():
        return np.full(len(grid), nan)
    order = np.argsort(places[is_known], kind="stable")
    return np.interp(grid, places[is_known][order], numbers[is_known][order], left=nan, right=nan)
