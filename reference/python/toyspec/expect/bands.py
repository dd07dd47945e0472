"""What runs are expected to log: for each metric, a band for the mean of each window of steps.

Windows are the whole run, its halves, and so on: a drift shows in long ones, and a spike in short ones.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from math import floor, inf, isfinite, log10, sqrt
from statistics import fmean, variance
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.files import open_file
from toyspec.core.runs.history import placed_curves
from toyspec.core.runs.run import open_run
from toyspec.core.runs.run_facts import goal_of
from toyspec.expect.measurements import is_compared, is_seed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.history import PlacedCurve

    Goal = Literal["min", "max"]

_MOST_WINDOWS = 16
"""Number of the shortest windows."""
_TIMES_SPREAD = (20.0, 15.0, 13.0, 8.7, 6.9, 6.0, 5.5, 5.0)
"""Half the width of a band in standard deviations, for 2 runs and more: the t quantile of 1 in 2,000, bounded."""
_NEAR = 2
_TOO_LARGE = 1e150
_DIGITS = 6
_MOST_BYTES = 16 << 20
_LIST = re.compile(r"\[[^\[\]{}]*\]")


class ExpectationError(ToyspecError):
    """Runs that no expectation can be made of, or a file that has none."""


class Band(msgspec.Struct, frozen=True, array_like=True):
    """Where the mean of the values in a window must be."""

    first: int | float
    """First step of the window."""
    last: int | float
    count: int
    """Number of values in it."""
    low: float
    high: float


class MetricBands(msgspec.Struct, frozen=True, omit_defaults=True):
    """The bands of one metric, the longest window first."""

    bands: list[Band]
    goal: Literal["min", "max"] | None = None
    """Which values are better; None where that is unknown."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is expected to log; the content of the file."""

    toyspec_expect: Literal[1] = 1
    """Version of the file."""
    runs: list[str]
    """Names of the runs that it was made of."""
    settings: dict[str, Any]
    """Settings that a run must have; a seed is not one of them."""
    metrics: dict[str, MetricBands]


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is not as expected."""

    what: Literal["setting", "metric", "missing", "not finite", "above", "below"]
    name: str
    expected: Any
    found: Any
    first: int | float | None = None
    """First step of the window; None for a setting."""
    last: int | float | None = None
    line: int | None = None
    """Line of the first value in the window."""


class Width(NamedTuple):
    """How wide the bands of a single run are."""

    rtol: float = 0.02
    """Share of the value."""
    atol: float = 0.0
    share: float = 0.1
    """Share of the range of the values in the window."""


def expectation_of(
    runs: Sequence[str], *, width: Width, globs: Sequence[str] = (), choice: DialectChoice
) -> Expectation:
    """Return what a run like *runs* is expected to log.

    From several runs a band is as wide as they differ, from one as *width* says. Metrics are those that all of *runs*
    have; those that measure time or the machine are left out unless *globs* match them. Raises ExpectationError if no
    metric is left, and StreamError.
    """
    opened = [open_run(run, dialect=choice) for run in runs]
    curves = [placed_curves(run.path, dialect=choice)[0] for run in opened]
    settings = opened[0].facts.settings or {}
    for run in opened[1:]:
        other = run.facts.settings or {}
        settings = {name: value for name, value in settings.items() if name in other and other[name] == value}
    metrics: dict[str, MetricBands] = {}
    for name in curves[0]:
        if is_compared(name, globs) and all(name in each for each in curves):
            bands = _bands([_Values(each[name]) for each in curves], width)
            if bands:
                metrics[name] = MetricBands(bands, _goal(name))
    if not metrics:
        raise ExpectationError("the runs have no metric of finite numbers in common; name others with --metric")
    settings = {name: value for name, value in settings.items() if not is_seed(name)}
    return Expectation(runs=[run.facts.name for run in opened], settings=settings, metrics=metrics)


def departures(
    run: str, expected: Expectation, *, at_least: bool = False, choice: DialectChoice
) -> tuple[str, list[Departure]]:
    """Return the stream of *run*, and where it is not as *expected*: settings, then metrics in the order of the file.

    With *at_least* a metric with a goal may be better than expected. Raises StreamError.
    """
    opened = open_run(run, dialect=choice)
    curves, _ = placed_curves(opened.path, dialect=choice)
    settings = opened.facts.settings or {}
    found = [
        Departure(what="setting", name=name, expected=value, found=settings.get(name))
        for name, value in expected.settings.items()
        if name not in settings or settings[name] != value
    ]
    for name, metric in expected.metrics.items():
        if name not in curves:
            found.append(Departure(what="metric", name=name, expected="values", found=None))
            continue
        allowed = metric.goal if at_least else None
        values = _Values(curves[name])
        found += [each for band in metric.bands if (each := _departure(name, band, values, allowed)) is not None]
    return opened.path, found


def written(expected: Expectation) -> bytes:
    """Return *expected* as JSON that people read: a line for each band."""
    text = msgspec.json.format(msgspec.json.encode(expected), indent=2).decode()
    return (_LIST.sub(lambda match: " ".join(map(str.strip, match[0].splitlines())), text) + "\n").encode()


def read_expectation(path: str) -> Expectation:
    """Return the expectation in the file *path*; raise ExpectationError."""
    try:
        with open_file(path) as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ExpectationError(f"{path}: longer than {_MOST_BYTES} bytes; write it with `toyspec expect write`")
        return msgspec.json.decode(data, type=Expectation)
    except OSError as error:
        raise ExpectationError(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise ExpectationError(f"{path}: {error}; write it with `toyspec expect write`") from None


def _goal(name: str) -> Goal | None:
    goal = goal_of(name, {})
    return "min" if goal == "min" else "max" if goal == "max" else None


class _Values:
    """The numbers of a curve in the order of steps."""

    def __init__(self, curve: PlacedCurve) -> None:
        numbers = [
            (step, value, at)
            for at, (step, value) in enumerate(zip(curve.steps, curve.values, strict=True))
            if isinstance(value, float | int)
        ]
        numbers.sort(key=lambda each: each[0])
        self.steps = [step for step, _, _ in numbers]
        self.values = [value for _, value, _ in numbers]
        self._lines = [at for _, _, at in numbers]
        self._curve = curve

    def within(self, first: float, last: float) -> Sequence[float]:
        """Return the values from step *first* to *last*."""
        return self.values[bisect_left(self.steps, first) : bisect_right(self.steps, last)]

    def line_at(self, step: float) -> int | None:
        """Return the line of the first value from *step* on; None without one."""
        at = bisect_left(self.steps, step)
        return abs(self._curve.line_of(self._lines[at])) if at < len(self.steps) else None


def _bands(runs: Sequence[_Values], width: Width) -> list[Band]:
    """Return the bands of a metric; none for one that has a window without finite numbers."""
    first, levels = runs[0], []
    parts = 1
    while parts <= min(_MOST_WINDOWS, len(first.steps)):
        edges = [len(first.steps) * at // parts for at in range(parts + 1)]
        levels.append([(first.steps[a], first.steps[b - 1]) for a, b in pairwise(edges)])
        parts *= 2
    means = [[[_mean(run.within(*window)) for run in runs] for window in level] for level in levels]
    if not levels or not all(isfinite(each) for level in means for window in level for each in window):
        return []
    spreads = [[variance(window) if len(runs) > 1 else 0.0 for window in level] for level in means]
    found = []
    for level, windows in enumerate(levels):
        for at, (window, values) in enumerate(zip(windows, means[level], strict=True)):
            inside = first.within(*window)
            if len(runs) == 1:
                half = width.atol + width.rtol * abs(values[0]) + width.share * (max(inside) - min(inside))
            else:
                count = len(levels[-1]) // len(windows)
                # Of few windows the spread is a guess: as if those of the shortest were independent it is not less.
                near = fmean(spreads[level][max(0, at - _NEAR) : at + _NEAR + 1])
                apart = max(near, fmean(spreads[-1][at * count : (at + 1) * count]) / count)
                half = _TIMES_SPREAD[min(len(runs), 9) - 2] * sqrt(apart * (1 + 1 / len(runs)))
            middle = fmean(values)
            found.append(Band(*window, len(inside), _rounded(middle - half, floor), _rounded(middle + half, _ceiling)))
    return found


def _mean(values: Sequence[float]) -> float:
    """Return the mean of *values*; an infinity without one, and where one has no finite square."""
    return fmean(values) if values and max(map(abs, values)) < _TOO_LARGE else inf


def _ceiling(value: float) -> int:
    return -floor(-value)


def _rounded(value: float, way: Any) -> float:
    """Return *value* with six digits, rounded away from the middle of its band."""
    if not value or not isfinite(value):
        return value
    digits = _DIGITS - 1 - floor(log10(abs(value)))
    # A decimal, read as text: ten to a negative power is not exact.
    return float(f"{way(value * 10.0**digits)}e{-digits}") if abs(digits) < 300 else value


def _departure(name: str, band: Band, values: _Values, goal: Goal | None) -> Departure | None:
    inside = values.within(band.first, band.last)
    if 2 * len(inside) < band.count:
        what, expected, found = "missing", f"{band.count} values", f"{len(inside)} values"
    elif not all(map(isfinite, inside)):
        what, expected, found = "not finite", f"{band.low:g} to {band.high:g}", "nan"
    else:
        mean = _mean(inside)
        if (band.low <= mean or goal == "min") and (mean <= band.high or goal == "max"):
            return None
        what, expected, found = "below" if mean < band.low else "above", f"{band.low:g} to {band.high:g}", f"{mean:g}"
    line = values.line_at(band.first)
    made: Mapping[str, Any] = {"what": what, "expected": expected, "found": found, "line": line}
    return Departure(name=name, first=band.first, last=band.last, **made)
