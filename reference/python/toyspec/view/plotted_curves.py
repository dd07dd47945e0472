"""Curves as a picture needs them beyond those of the viewer: over any metric, smoothed, and as the mean of a group."""

from __future__ import annotations

from array import array
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from toyspec.core.runs.history import history
from toyspec.view.drawn_curves import DrawnCurve, Stretch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.reading.log_detection import DialectChoice


def curve_over(path: str, metric: str, x: str, *, dialect: DialectChoice, most: int) -> DrawnCurve:
    """Return *metric* of the run at *path* over the metric *x*, in the order of steps, in at most *most* buckets.

    A value is where *x* is at its step, or was before. Raises ExpressionError if the run lacks one of them.
    """
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


def mean_curve(curves: Sequence[DrawnCurve], most: int) -> DrawnCurve:
    """Return the mean of *curves* at each place that some of them reach, and how far the values reach there.

    Between two points of a run its value is on the line between them. Needs NumPy.
    """
    import numpy as np

    found = [each.latest for each in curves if each.latest is not None and len(each.latest.place)]
    if not found:
        return DrawnCurve(None, [], [], [], None)
    grid = np.unique(np.concatenate([np.asarray(each.place) for each in found]))
    level = -(-len(grid) // most)
    grid = grid[np.unique(np.linspace(0, len(grid) - 1, min(len(grid), most)).astype(int))]
    means = np.array([_at(grid, each, each.mean if each.level > 1 else each.last) for each in found])
    known = np.isfinite(means)
    total = known.sum(axis=0)
    mean = np.where(total, np.where(known, means, 0.0).sum(axis=0) / np.maximum(total, 1), nan)
    low, high, missing = mean.copy(), mean.copy(), np.zeros(len(grid))
    for each in found:
        cells = np.maximum(np.searchsorted(grid, np.asarray(each.place), "right") - 1, 0)
        np.fmin.at(low, cells, np.asarray(each.low))
        np.fmax.at(high, cells, np.asarray(each.high))
        np.add.at(missing, cells, np.asarray(each.not_finite))
        low, high = np.fmin(low, _at(grid, each, each.low)), np.fmax(high, _at(grid, each, each.high))
    place, least, greatest, average, none = (array("d", each.tolist()) for each in (grid, low, high, mean, missing))
    gaps = [place for each in curves for place in each.gaps]
    resumes = [place for each in curves for place in each.resumes]
    level = max(level, *(each.level for each in found))
    stretch = Stretch(place, least, greatest, average, average, none, level)
    return DrawnCurve(stretch, [], gaps, resumes, float(grid[0]))


def _at(grid: Any, stretch: Stretch, values: Sequence[float]) -> Any:
    import numpy as np

    places, numbers = np.asarray(stretch.place), np.asarray(values)
    is_known = np.isfinite(numbers)
    if not is_known.any():
        return np.full(len(grid), nan)
    order = np.argsort(places[is_known], kind="stable")
    return np.interp(grid, places[is_known][order], numbers[is_known][order], left=nan, right=nan)
