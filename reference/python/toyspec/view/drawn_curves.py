"""The curves of a run as what is drawn of them, at every place where a person looks: terminal and picture."""

from __future__ import annotations

from array import array
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.stream_files import locate_stream
from toyspec.view.curve_frames import AXES, places, tokens_of
from toyspec.view.pyramids import MOST_BUCKETS
from toyspec.view.scans import LiveCurves, ScannedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
