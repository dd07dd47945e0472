"""What runs are expected to log: for each metric, bands for the values in windows of steps.

By default windows are the whole run, its halves, and so on: a drift shows in long ones, and a spike in short ones.
"""

from __future__ import annotations

import re
from math import floor, inf, isfinite, log10, sqrt
from statistics import fmean, median, variance
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.command_line.figures import counted, figure
from toyspec.core.errors import ToyspecError, check_choice
from toyspec.core.escaping import shortened
from toyspec.core.files import open_file
from toyspec.core.runs.groups import mean_value
from toyspec.core.runs.history import placed_curves
from toyspec.core.runs.run import open_run
from toyspec.core.runs.run_facts import differing
from toyspec.expect.measurements import cost_goal, is_compared, is_seed
from toyspec.expect.ordered import Ordered, ordered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.run import Run

SECONDS = "@seconds"
"""The metric that has the seconds of the whole run, at its last step."""
_PARTS = (1, 2, 4, 8, 16)
_TIMES_SPREAD = (20.0, 15.0, 13.0, 8.7, 6.9, 6.0, 5.5, 5.0)
"""Half the width of a band in standard deviations, for 2 runs and more: the t quantile of 1 in 2,000, bounded."""
_NEAR = 2
_TOO_LARGE = 1e150
_DIGITS = 3
"""A bound is exact to so many digits of half the width of its band."""
_LIST = re.compile(r"\[[^\[\]{}]*\]")


class ExpectationError(ToyspecError):
    """Runs that no expectation can be made of, or a file that has none."""


class Band(msgspec.Struct, frozen=True, array_like=True):
    """Where the mean or median of the values in a window must be."""

    first: int | float
    """First step of the window."""
    last: int | float
    count: int
    """Number of values in it."""
    low: float | None
    """None where any lower value is accepted."""
    high: float | None


class MetricBands(msgspec.Struct, frozen=True, omit_defaults=True):
    """The bands of one metric, the longest window first."""

    bands: list[Band]
    of: Literal["mean", "median"] = "mean"


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

    @property
    def place(self) -> str:
        """The steps of the window; nothing for a setting."""
        last = "" if self.first == self.last else f" to {self.last}"
        return "" if self.first is None else f"{self.first}{last}"

    @property
    def sentence(self) -> str:
        """What is wrong, with what was found and expected."""
        what = {"setting": "different", "metric": "missing"}.get(self.what, self.what)
        place = f" at step{'s' * (self.first != self.last)} {self.place}" if self.place else ""
        return f"{shortened(self.name)} is {what}{place}: {figure(self.found)}, expected {figure(self.expected)}"


class Shape(NamedTuple):
    """Which bands are made of runs, and how wide they are."""

    windows: Literal["halves", "last", "settled"] | int | tuple[int, ...] = "halves"
    """Halves and their halves; the last sixteenth; all but the first tenth; a number of single steps, or these."""
    rtol: float = 0.02
    """Of a single run: share of the value."""
    atol: float = 0.0
    """Of a single run: absolute difference."""
    share: float = 0.1
    """Of a single run: share of the range of the values in the window."""
    at_least: bool = False
    """Whether a metric with a goal may be better than the runs."""
    of: Literal["mean", "median"] = "mean"
    costs: bool = False
    """Whether the metrics are times, sizes and rates; otherwise these are left out."""


PRESETS = {
    "curve": Shape(),
    "exact": Shape(1000, rtol=0.0, share=0.0),
    "steps": Shape(40, rtol=0.05, share=0.0),
    "final": Shape("last", share=0.0, at_least=True),
    "performance": Shape("settled", rtol=0.1, share=0.0, at_least=True, of="median", costs=True),
}
"""What gates of public projects check: the curve, equal values, values at steps, the end, times and throughput."""


def shape_of(preset: str = "curve", **changes: Any) -> Shape:
    """Return the shape of a preset with those of *changes* that are not None; raise ValueError."""
    check_choice("preset", preset, PRESETS)
    return PRESETS[preset]._replace(**{name: each for name, each in changes.items() if each is not None})


def expectation_of(
    runs: Sequence[str], *, shape: Shape, globs: Sequence[str] = (), choice: DialectChoice
) -> Expectation:
    """Return what a run like *runs* is expected to log.

    From several runs a band is as wide as they differ, from one as *shape* says. Metrics are those that all of *runs*
    have and that *globs* match, without one those of *shape*. Raises ExpectationError if no
    metric is left, and StreamError.
    """
    opened = [open_run(run, dialect=choice) for run in runs]
    curves = [_values_of(run, choice) for run in opened]
    known = opened[0].facts.metrics or {}
    metrics: dict[str, MetricBands] = {}
    for name in curves[0]:
        if is_compared(name, globs, costs=shape.costs) and all(name in each for each in curves):
            goal = (known[name].goal if name in known else None) or cost_goal(name)
            bands = _bands([each[name] for each in curves], shape, goal if shape.at_least else None)
            if bands:
                metrics[name] = MetricBands(bands, shape.of)
    if not metrics:
        raise ExpectationError("the runs have no such metric of finite numbers in common; name others with --metric")
    settings = [run.facts.settings or {} for run in opened]
    differ = differing(settings)
    equal = {name: value for name, value in settings[0].items() if name not in differ and not is_seed(name)}
    return Expectation(runs=[run.facts.name for run in opened], settings=equal, metrics=metrics)


def departures(run: str, expected: Expectation, *, choice: DialectChoice) -> tuple[str, list[Departure]]:
    """Return the stream of *run*, and where it is not as *expected*: settings, then metrics in the order of the file.

    Raises StreamError.
    """
    opened = open_run(run, dialect=choice)
    curves = _values_of(opened, choice)
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
        values = curves[name]
        for band in metric.bands:
            inside = values.within(band.first, band.last)
            each = departure(name, band, len(inside), _middle(inside, metric.of), values.line_from(band.first))
            found += [each] if each else []
    return opened.path, found


def departure(name: str, band: Band, count: int, middle: float, line: int | None = None) -> Departure | None:
    """Return how *count* values of a window, with this mean or median, leave its *band*; None if they do not."""
    low, high = band.low, band.high
    expected, found = _range(low, high), f"{middle:g}" if low != high else repr(middle)
    if 2 * count < band.count:
        what, expected, found = "missing", counted(band.count, "value"), counted(count, "value")
    elif not isfinite(middle):
        what, found = "not finite", "nan"
    elif low is not None and middle < low:
        what = "below"
    elif high is not None and middle > high:
        what = "above"
    else:
        return None
    made: Mapping[str, Any] = {"what": what, "expected": expected, "found": found, "line": line}
    return Departure(name=name, first=band.first, last=band.last, **made)


def written(expected: Expectation) -> bytes:
    """Return *expected* as JSON that people read: a line for each band."""
    text = msgspec.json.format(msgspec.json.encode(expected), indent=2).decode()
    return (_LIST.sub(lambda match: " ".join(map(str.strip, match[0].splitlines())), text) + "\n").encode()


def read_expectation(path: str) -> Expectation:
    """Return the expectation in the file *path*; raise ExpectationError."""
    try:
        with open_file(path) as file:
            return msgspec.json.decode(file.read(), type=Expectation)
    except OSError as error:
        raise ExpectationError(f"{path}: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        raise ExpectationError(f"{path}: {error}; write it with `toyspec expect write`") from None


def _values_of(run: Run, choice: DialectChoice) -> dict[str, Ordered]:
    """Return the numbers of each metric of *run*."""
    found = {name: ordered(curve) for name, curve in placed_curves(run.path, dialect=choice)[0].items()}
    if run.facts.seconds is not None:
        found[SECONDS] = Ordered([run.facts.last_step or 0], [run.facts.seconds])
    return {name: each for name, each in found.items() if not isinstance(next(iter(each.values), ""), str)}


def _levels(steps: Sequence[float], windows: str | int | Sequence[int]) -> list[list[tuple[float, float]]]:
    """Return windows of *steps*, which are in order, by their length: the longest first."""
    count = len(steps)
    if windows == "halves":
        return [
            [(steps[count * at // parts], steps[count * (at + 1) // parts - 1]) for at in range(parts)]
            for parts in _PARTS
            if parts <= count
        ]
    if isinstance(windows, str):
        first = count - max(1, count // _PARTS[-1]) if windows == "last" else count // 10
        return [[(steps[first], steps[-1])]] if steps else []
    if isinstance(windows, int):
        named = list(dict.fromkeys(steps))
        most = min(windows, len(named))
        single = [named[at * (len(named) - 1) // max(1, most - 1)] for at in range(most)]
    else:
        single = [step for step in windows if step in steps]
    return [[(step, step) for step in single]] if single else []


def _bands(runs: Sequence[Ordered], shape: Shape, goal: Literal["min", "max"] | None) -> list[Band]:
    """Return the bands of a metric; none for one that has a window without finite numbers."""
    first = runs[0]
    levels = _levels(first.steps, shape.windows)
    middles = [[[_middle(run.within(*window), shape.of) for run in runs] for window in level] for level in levels]
    if not all(isfinite(each) for level in middles for window in level for each in window):
        return []
    spreads = [[variance(window) if len(runs) > 1 else 0.0 for window in level] for level in middles]
    found = []
    for level, windows in enumerate(levels):
        for at, (window, values) in enumerate(zip(windows, middles[level], strict=True)):
            inside = first.within(*window)
            if len(runs) == 1:
                half = shape.atol + shape.rtol * abs(values[0]) + shape.share * (max(inside) - min(inside))
            else:
                count = len(levels[-1]) // len(windows)
                # Of few windows the spread is a guess: as if those of the shortest were independent it is not less.
                near = fmean(spreads[level][max(0, at - _NEAR) : at + _NEAR + 1])
                apart = max(near, fmean(spreads[-1][at * count : (at + 1) * count]) / count)
                half = _TIMES_SPREAD[min(len(runs), 9) - 2] * sqrt(apart * (1 + 1 / len(runs)))
            middle = mean_value(values)
            low = None if goal == "min" else _rounded(middle - half, half)
            high = None if goal == "max" else _rounded(middle + half, half)
            found.append(Band(*window, len(inside), low, high))
    return found


def _middle(values: Sequence[float], of: str) -> float:
    """Return the mean or median of *values*; an infinity without one, and where one has no finite square."""
    if not values or not all(abs(each) < _TOO_LARGE for each in values):
        return inf
    return median(values) if of == "median" else mean_value(values)


def _rounded(value: float, half: float) -> float:
    """Return *value* with some digits of *half*."""
    return round(value, _DIGITS - floor(log10(half))) if 0 < half < inf else value


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "any number" if low is high else f"at least {low:g}" if high is None else f"at most {high:g}"
    return f"{low:g} to {high:g}" if low != high else repr(low)
