"""Where two runs part: the first step of each metric at which their logs have different values.

The values are those of ``history``: what a resumption superseded does not count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from math import ceil, inf, isfinite, sqrt, ulp
from sys import float_info
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.format.numbers import binary32
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.reading.stream_files import locate_stream
from toyspec.core.runs.history import Cell, placed_curves
from toyspec.expect.measurements import is_compared
from toyspec.expect.ordered import Ordered, ordered
from toyspec.expect.reasons import Circumstances, Reason, reasons_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.history import PlacedCurve

    Step = int | float

_TIMES_NOISE = 6.0
"""A difference is beyond the noise where it is larger than so many times the noise around its step."""
_NOISE_SHARE, _NOISE_STEPS = 20, 5
"""The noise of a step is that of a twentieth of all steps on each side of it, and of at least five."""
_MOST_NOISE = 1e150
"""Squares of what is larger may have no finite sum."""


class NotComparableError(ToyspecError):
    """Two runs have no metric in common, or none that was asked for."""


class Tolerance(NamedTuple):
    """Which values count as equal: those that one of the bounds accepts. By default, only the same numbers do."""

    rtol: float = 0.0
    """Largest difference as a share of the larger absolute value, added to ``atol``."""
    atol: float = 0.0
    """Largest absolute difference."""
    ulp: int = 0
    """Largest number of units in the last place."""

    def accepts(self, a: Cell, b: Cell, noise: float = 0.0) -> bool:
        """Return whether *a* and *b* are equal, or differ by *noise* at most; NaN equals NaN."""
        if a == b or (a != a and b != b):  # noqa: PLR0124 - only NaN differs from itself, and texts are here too
            return True
        if isinstance(a, str) or isinstance(b, str) or a is None or b is None or not (isfinite(a) and isfinite(b)):
            return False
        bound = max(self.atol + self.rtol * max(abs(a), abs(b)), noise)
        return abs(a - b) <= bound or (self.ulp > 0 and _ulps(a, b)[0] <= self.ulp)


class Side(msgspec.Struct, frozen=True):
    """The value of one of two runs, and where it is."""

    file: str
    line: int
    """Number of its line, counted from 1."""
    value: Cell
    """A text such as ``nan`` where it was not finite."""


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The first place at which two runs differ in one metric."""

    metric: str
    rank: int
    phase: str | None
    """The phase of the values; None in logs that have none."""
    step: int | float
    what: Literal["value", "step", "metric", "rank"]
    """What differs: the value, or which run has this step, metric or rank at all."""
    a: Side | None
    """The value in the first run; None if it has none there."""
    b: Side | None
    absolute: float | None = None
    """Absolute difference; None unless both values are finite numbers."""
    relative: float | None = None
    """The same as a share of the larger absolute value."""
    ulp: int | None = None
    """The difference in units in the last place, of the narrower type that has both values."""
    bits: Literal[32, 64] | None = None
    """Width of that type."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Where two runs part, and what else differs between them."""

    a: str
    """Path of the first stream."""
    b: str
    partings: list[Parting]
    """The first parting of each metric that differs, in the order of their steps; empty if the runs are equal.

    Metrics and ranks that only one run has are last.
    """
    reasons: list[Reason]
    """What differs before the first parting, in the order of time; empty if the runs are equal."""
    equal: list[str]
    """Names of the metrics that do not differ."""
    not_compared: list[str]
    """Names of metrics that were left out: times, sizes and samples of the machine."""
    values: int
    """Number of values of the first run that were compared, up to the partings."""


def compare_runs(  # noqa: PLR0913 - each says another thing of the comparison
    a: str,
    b: str,
    *,
    tolerance: Tolerance,
    globs: Sequence[str] = (),
    noise: Sequence[str] = (),
    choice: DialectChoice,
) -> Comparison:
    """Return where the runs *a* and *b* part, rank by rank.

    Metrics whose names match none of *globs* are left out; without one, those that measure time or the machine are.
    With *noise*, runs of the program of *a* with other seeds, values also count as equal where they differ by no more
    than these runs do around their step. Raises NotComparableError if no metric is left that both runs have, and
    StreamError for what cannot be read.
    """
    sides, others = _Logs(a, choice), [_Logs(each, choice) for each in noise]
    second = _Logs(b, choice)
    partings: list[Parting] = []
    equal: dict[str, None] = {}
    left_out: dict[str, None] = {}
    count = shared = 0
    events: tuple[Circumstances, Circumstances] | None = None
    for rank in sorted(sides.streams.keys() | second.streams.keys()):
        logs = (sides.opened(rank), second.opened(rank))
        if events is None:
            events = (logs[0].events, logs[1].events)
        noisy = [each.opened(rank) for each in others]
        for name in dict.fromkeys([*logs[0].curves, *logs[1].curves]):
            if not is_compared(name, globs):
                left_out[name] = None
                continue
            shared += all(name in each.curves for each in logs)
            known = [each.curves[name] for each in (logs[0], *noisy) if name in each.curves]
            found, compared = _parting(name, rank, logs, tolerance, _Noise(known) if noisy and known else None)
            count += compared
            if found is None:
                equal[name] = None
            else:
                partings.append(found)
    if not shared:
        hint = "`toyspec show` lists the metrics of a run, and --metric names those to compare"
        raise NotComparableError(f"{a} and {b} have no metric in common that is compared; {hint}")
    assert events is not None
    partings.sort(key=lambda each: (each.what in ("metric", "rank"), each.step, each.what != "value"))
    differ = {each.metric for each in partings}
    return Comparison(
        a=sides.streams[0],
        b=second.streams[0],
        partings=partings,
        reasons=reasons_for(*events, partings[0].step) if partings else [],
        equal=[name for name in equal if name not in differ],
        not_compared=list(left_out),
        values=count,
    )


class _Log(NamedTuple):
    """The values of one rank of a run."""

    stream: str
    curves: Mapping[str, PlacedCurve]
    events: Circumstances
    choice: DialectChoice


class _Logs:
    """The streams of a run by rank."""

    def __init__(self, run: str, choice: DialectChoice) -> None:
        stream = locate_stream(run, choice.stream_files)
        self.streams = {0: stream, **ranks_beside(stream)}
        self._choice = choice

    def opened(self, rank: int) -> _Log:
        """Return the values of *rank*; none if the run has no such rank."""
        if rank not in self.streams:
            return _Log("", {}, Circumstances(), self._choice)
        stream, events = self.streams[rank], Circumstances()
        curves, damaged_bytes = placed_curves(stream, on_record=events.take, dialect=self._choice)
        events.finish(stream, self._choice, damaged_bytes)
        return _Log(stream, curves, events, self._choice)


def _parting(
    name: str, rank: int, logs: tuple[_Log, _Log], tolerance: Tolerance, noise: _Noise | None
) -> tuple[Parting | None, int]:
    """Return the first place at which two runs differ in a metric, None without one, and the number of values to it."""
    a, b = curves = [ordered(each.curves.get(name)) for each in logs]
    at, most = _same_begin(a, b), min(len(a.steps), len(b.steps))
    while (
        at < most
        and a.steps[at] == b.steps[at]
        and tolerance.accepts(a.values[at], b.values[at], noise.at(a.steps[at]) if noise else 0.0)
    ):
        at += 1
    left = [each.steps[at] for each in curves if at < len(each.steps)]
    if not left:
        return None, at
    step = min(left)
    sides = [
        _side(name, log, curve, at) if at < len(curve.steps) and curve.steps[at] == step else None
        for log, curve in zip(logs, curves, strict=True)
    ]
    owner = 0 if sides[0] else 1
    log = logs[owner]
    what: Literal["value", "step", "metric", "rank"] = "value"
    if None in sides:
        lacking = logs[1 - owner]
        what = "step" if name in lacking.curves else "metric" if lacking.stream else "rank"
    found = Parting(
        metric=name,
        rank=rank,
        phase=log.curves[name].phase_of(curves[owner].place_of(at)) or log.events.phase,
        step=step,
        what=what,
        a=sides[0],
        b=sides[1],
        **_differences(*(each.value if each else None for each in sides)),
    )
    return found, at + (what == "value")


def _side(name: str, log: _Log, curve: Ordered, at: int) -> Side:
    line = log.curves[name].line_of(curve.place_of(at))
    if line < 0:
        line = _line_from(log, -line, name, curve.steps[at])
    value = curve.values[at]
    return Side(log.stream, line, str(value) if isinstance(value, float) and not isfinite(value) else value)


def _same_begin(a: Ordered, b: Ordered) -> int:
    """Return for how many values two curves are the same at once; they may be for more, such as NaN."""
    low, high = 0, min(len(a.steps), len(b.steps))
    while low < high:
        middle = (low + high + 1) // 2
        part = slice(low, middle)
        if a.steps[part] == b.steps[part] and a.values[part] == b.values[part]:
            low = middle
        else:
            high = middle - 1
    return low


class _Noise:
    """What runs that differ in their seed alone differ by, around each step."""

    def __init__(self, curves: Iterable[PlacedCurve]) -> None:
        first, *others = (dict(zip(each.steps, each.values, strict=True)) for each in curves)
        squares: dict[Step, float] = {}
        for step, value in first.items():
            apart = [_differences(value, each[step]).get("absolute", 0.0) for each in others if step in each]
            if apart:
                squares[step] = min(max(apart), _MOST_NOISE) ** 2
        self._steps = sorted(squares)
        self._sums = [0.0, *accumulate(squares[step] for step in self._steps)]

    def at(self, step: Step) -> float:
        """Return the largest difference at *step* that is still noise."""
        count = len(self._steps)
        if not count:
            return 0.0
        near = max(_NOISE_STEPS, count // _NOISE_SHARE)
        first = max(0, min(bisect_left(self._steps, step) - near, count - 2 * near))
        last = min(count, max(bisect_right(self._steps, step) + near, 2 * near))
        return _TIMES_NOISE * sqrt(max(0.0, self._sums[last] - self._sums[first]) / (last - first))


def _differences(a: Cell, b: Cell) -> dict[str, Any]:
    """Return the members of a parting that compare two finite numbers; none for others."""
    if a is None or b is None or isinstance(a, str) or isinstance(b, str) or not (isfinite(a) and isfinite(b)):
        return {}
    ulp, bits = _ulps(a, b)
    largest = max(abs(a), abs(b))
    apart = abs(a - b)
    absolute = float(apart) if apart <= float_info.max else inf
    return {"absolute": absolute, "relative": absolute / largest if largest else 0.0, "ulp": ulp, "bits": bits}


def _ulps(a: float, b: float) -> tuple[int, Literal[32, 64]]:
    """Return the difference in units in the last place of the larger one, of the narrower type that has both values."""
    # An integer of a log may have more digits than either type.
    a, b = float(a), float(b)
    is_narrow = binary32(a) == a and binary32(b) == b
    unit = ulp(max(abs(a), abs(b))) * (2.0**29 if is_narrow else 1)
    return ceil(abs(a / unit - b / unit)), 32 if is_narrow else 64


def _line_from(log: _Log, line: int, name: str, step: Step) -> int:
    """Return the line of a value that is in *line* or after it: records in which each has one value."""
    attempts = Attempts()
    # Of several at one step, the last ones are in later blocks.
    with read(log.stream, mode="salvage", dialect=log.choice) as reading:
        for record in reading:
            attempts.learn(record)
            if record.line >= line and record.step == step and name in attempts.named_values(record):
                return record.line
    return line
