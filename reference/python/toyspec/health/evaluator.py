"""Compares a run with health rules, record by record: the one answer to what a rule means.

It reads no clock and no disk, so that the same records have the same alerts in the process that trains, in a program
that watches, and in a check years later.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from toyspec.core.escaping import shortened
from toyspec.core.reading.attempts import world_size_of
from toyspec.core.reading.run_files import is_of_latest_attempt
from toyspec.health.rules import (
    PACE,
    BoundRule,
    DiskRule,
    MetricRule,
    NonfiniteRule,
    PlateauRule,
    RankBehindRule,
    SlowerRule,
    SpikeRule,
    StallRule,
    begun,
    recovered,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toyspec.core.reading.records import Record
    from toyspec.health.rules import AnyRule, HealthAlert

    _Broken = tuple[str, float | None]
    """What is wrong, and the bound that the value was compared with."""

MOST_METRICS: Final = 10_000
"""Metrics beyond these are counted, and not watched: the names in a log must not use up the memory."""

_INTERVALS = 101
_LEAST_INTERVALS = 10
_RANK_VALUES = 51
_LEAST_RANK_VALUES = 30
_RANKS_EVERY = 10
_PAUSES = 2.0
_PACE_SECONDS = 1.0
_DISK_SPAN_SECONDS = 1800.0
_LEAST_DISK_SPAN_SECONDS = 300.0
NO_PROGRESS: Final = frozenset(["system", "alert", "note", "run_end", "define", "artifact", "reference"])
"""Kinds of records that are written beside the training, and say nothing of its progress."""
WINDOW: Final = 101
"""Number of values of which the running median and interquartile range are."""
LEAST_VALUES: Final = 20
"""Number of values before which nothing is a spike."""
CALM_VALUES: Final = 5
"""Number of good values in a row that end an incident."""

# The last values that are compared with those before them, for what gets slower.
_RECENT = 30
_LEAST_REFERENCE = 60
_SLOWER_WINDOW = 150
_LEAST_PLATEAU = 50
_REFRESH = 10
_LARGEST = sys.float_info.max


class _RuleState:
    """Where a metric is with one rule."""

    def __init__(self, rule: MetricRule) -> None:
        self.rule = rule
        self.broken = 0
        self.calm = 0
        self.is_open = False
        self.best: float | None = None
        self.best_step: float = 0
        self.reference = 0.0


class WatchedSeries:
    """The values of one metric, as far as the rules about it need them.

    A caller that is in a hurry passes a value by ``take`` only if it is not between ``low`` and ``high``, or the series
    is not ``calm``; else it appends value and step to ``window`` and ``steps``, if there is a window, and counts
    ``until_refresh`` down, at 0 of which ``refresh`` is due.
    """

    def __init__(self, name: str, rules: Sequence[MetricRule], rank: int | None) -> None:
        self._name = name
        self._rank = rank
        self._of_windows = [_RuleState(rule) for rule in rules if isinstance(rule, PlateauRule | SlowerRule)]
        self._of_values = [_RuleState(rule) for rule in rules if not isinstance(rule, PlateauRule | SlowerRule)]
        needs = [rule for rule in rules if not isinstance(rule, NonfiniteRule | BoundRule)]
        size = _SLOWER_WINDOW if any(isinstance(rule, SlowerRule) for rule in needs) else WINDOW
        self.window: deque[float] | None = deque(maxlen=size) if needs else None
        self.steps: deque[float] = deque(maxlen=size)
        self.until_refresh = LEAST_VALUES
        self.calm = True
        self._median = self._spread = math.nan
        self._farthest = math.inf
        self._flagged = 0
        self._first_step: float | None = None
        self._bound()

    def take(self, value: float | None, step: float) -> list[HealthAlert]:
        """Take in any value, also one that is not finite; None is not finite either. Return the alerts."""
        number = _float(value)
        found: list[HealthAlert] = []
        is_flagged = False
        for state in self._of_values:
            broken = self._breaks(state.rule, number)
            is_flagged = is_flagged or (isinstance(state.rule, SpikeRule) and broken is not None)
            found += self._counted(state, broken, number, step)
        if math.isfinite(number) and self.window is not None:
            found += self._kept(self.window, number, step, is_flagged=is_flagged)
        self.calm = not any(state.broken or state.is_open for state in self._of_values)
        return found

    def _kept(self, window: deque[float], number: float, step: float, *, is_flagged: bool) -> Iterable[HealthAlert]:
        if is_flagged:
            # What is compared with the median must not move it; only a level that stays is a new one.
            self._flagged += 1
            return self._new_level(window, number, step) if self._flagged > WINDOW else ()
        self._flagged = 0
        window.append(number)
        self.steps.append(step)
        self.until_refresh -= 1
        return self.refresh(step) if self.until_refresh <= 0 else ()

    def _new_level(self, window: deque[float], number: float, step: float) -> list[HealthAlert]:
        window.clear()
        self.steps.clear()
        self._flagged = 0
        self._median = self._spread = math.nan
        self.until_refresh = LEAST_VALUES
        self._bound()
        found: list[HealthAlert] = []
        for state in self._of_values:
            if isinstance(state.rule, SpikeRule):
                text = f"{self._shown} stays near {number:.4g}, which counts as its level from now on"
                found += self._closed(state, text, number, step)
                state.broken = state.calm = 0
        return found

    def _counted(
        self, state: _RuleState, broken: _Broken | None, number: float, step: float
    ) -> Iterable[HealthAlert]:  # fmt: skip
        rule: Any = state.rule
        if broken is not None:
            state.calm = 0
            state.broken += 1
            times = f", {state.broken} times in a row" if rule.values > 1 else ""
            if state.broken >= rule.values:
                return self._opened(state, broken[0] + times, number, broken[1], step)
        elif not math.isfinite(number) and not isinstance(rule, NonfiniteRule):
            state.calm = 0
        else:
            state.broken = 0
            state.calm += 1
            if state.is_open and state.calm >= CALM_VALUES:
                text = f"{self._shown} is {_shown(number)} again: {CALM_VALUES} good values in a row"
                return self._closed(state, text, number, step)
        return ()

    def _breaks(self, rule: MetricRule, number: float) -> _Broken | None:
        """Return what is wrong with *number* by *rule*, and the bound; None if nothing is."""
        if isinstance(rule, NonfiniteRule):
            return None if math.isfinite(number) else (f"{self._shown} is {_shown(number)}", None)
        low, high = self._range(rule)
        if not math.isfinite(number) or low <= number <= high:
            return None
        side, bound = ("above", high) if number > high else ("below", low)
        if isinstance(rule, BoundRule):
            return f"{self._shown} is {number:.4g}, {side} {bound:.4g}", bound
        far = abs(number - self._median)
        times = f"{far / self._spread:.3g} interquartile ranges" if self._spread > 0 else f"{far:.4g}"
        return f"{self._shown} is {number:.4g}, {times} {side} its median {self._median:.4g}", bound

    def _range(self, rule: MetricRule) -> tuple[float, float]:
        """Return the bounds between which *rule* is not broken."""
        if isinstance(rule, BoundRule):
            return -_LARGEST if rule.below is None else rule.below, _LARGEST if rule.above is None else rule.above
        if not isinstance(rule, SpikeRule) or math.isnan(self._median):
            return -_LARGEST, _LARGEST
        reach = rule.beyond * self._spread
        if rule.farthest is not None:
            # Where most values are scattered, a range says little of how far the farthest ones are.
            reach = min(reach, rule.farthest * self._farthest)
        # Rounding must not make a constant metric spike.
        reach = max(reach, max(rule.share, 1e-9) * abs(self._median), rule.least, sys.float_info.min)
        low = -_LARGEST if rule.direction == "up" else self._median - reach
        high = _LARGEST if rule.direction == "down" else self._median + reach
        return low, high

    def _bound(self) -> None:
        """Set the bounds between which no rule is broken."""
        ranges = [self._range(state.rule) for state in self._of_values]
        self.low = max((low for low, _ in ranges), default=-_LARGEST)
        self.high = min((high for _, high in ranges), default=_LARGEST)

    def refresh(self, step: float) -> list[HealthAlert]:
        """Compute median, range and bounds from the window; return the alerts of rules about the window as a whole."""
        window = self.window
        assert window is not None
        ordered = sorted(window)
        size = len(ordered)
        if size >= LEAST_VALUES:
            self._median = ordered[size // 2]
            self._spread = ordered[3 * size // 4] - ordered[size // 4]
            # Of few values, the farthest is not yet known.
            known = size >= WINDOW // 2
            self._farthest = max(ordered[-1] - self._median, self._median - ordered[0]) if known else math.inf
            self._bound()
        self.until_refresh = _REFRESH if size >= WINDOW // 2 else 4
        if self._first_step is None:
            self._first_step = self.steps[0]
        found: list[HealthAlert] = []
        for state in self._of_windows:
            if isinstance(state.rule, PlateauRule) and size >= _LEAST_PLATEAU:
                found += self._plateau(state, state.rule, step)
            elif isinstance(state.rule, SlowerRule) and size >= _RECENT + _LEAST_REFERENCE:
                found += self._slower(state, state.rule, list(window), step)
        return found

    def _plateau(self, state: _RuleState, rule: PlateauRule, step: float) -> Iterable[HealthAlert]:
        median, best = self._median, state.best
        sign = 1 if rule.goal == "min" else -1
        if best is None or sign * (best - median) > max(rule.by * abs(best), 1e-12):
            state.best, state.best_step = median, step
            return self._closed(state, f"{self._shown} improves again, to {median:.4g}", median, step)
        waited = step - state.best_step
        if waited < max(rule.steps, rule.share * (step - (self._first_step or 0))):
            return ()
        text = f"{self._shown} has not improved for {waited:g} steps: its median is {median:.4g}, the best {best:.4g}"
        return self._opened(state, text, median, best, step)

    def _slower(self, state: _RuleState, rule: SlowerRule, values: list[float], step: float) -> Iterable[HealthAlert]:
        recent = sorted(values[-_RECENT:])[_RECENT // 2]
        sign = 1 if rule.goal == "min" else -1
        if state.is_open:
            is_over = sign * (recent - state.reference) < rule.by / 2 * abs(state.reference)
            return self._closed(state, f"{self._shown} is {recent:.4g} again", recent, step) if is_over else ()
        before = sorted(values[:-_RECENT])
        reference = before[len(before) // 2]
        least = max(rule.by * reference, before[3 * len(before) // 4] - before[len(before) // 4])
        worse = sign * (recent - reference)
        if reference <= 0 or worse <= least:
            return ()
        state.reference = reference
        text = f"{self._shown} is {recent:.4g} over {_RECENT} values, {worse / reference:.0%} "
        text += f"{'more' if sign > 0 else 'less'} than its median {reference:.4g} before"
        return self._opened(state, text, recent, reference + sign * least, step)

    def rewind(self, step: float) -> None:
        """Forget the values after *step*: the run goes on from there."""
        while self.steps and self.steps[-1] > step:
            self.steps.pop()
            assert self.window is not None
            self.window.pop()
        for state in (*self._of_values, *self._of_windows):
            state.broken = state.calm = 0
            state.best_step = min(state.best_step, step)
        self._flagged = 0
        if self.window:
            size = self.until_refresh
            self.refresh(step)
            self.until_refresh = min(size, self.until_refresh)

    @property
    def _shown(self) -> str:
        return "time per step" if self._name == PACE else shortened(self._name)

    def _opened(
        self, state: _RuleState, text: str, value: float, threshold: float | None, step: float
    ) -> Iterable[HealthAlert]:
        """Begin an incident, unless one goes on or the rule applies later; without steps *step* is negative."""
        if state.is_open or 0 <= step < state.rule.after_step:
            return ()
        state.is_open = True
        return (begun(state.rule, text, threshold=threshold, **self._place(value, step)),)

    def _closed(self, state: _RuleState, text: str, value: float, step: float) -> Iterable[HealthAlert]:
        """End the incident that goes on, if one does."""
        if not state.is_open:
            return ()
        state.is_open = False
        return (recovered(state.rule, text, **self._place(value, step)),)

    def _place(self, value: float, step: float) -> dict[str, Any]:
        return {
            "metric": None if self._name == PACE else self._name,
            "value": value if math.isfinite(value) else None,
            "step": step if step >= 0 else None,
            "rank": self._rank,
        }


def _float(value: float | None) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _shown(number: float) -> str:
    return f"{number:.4g}" if math.isfinite(number) else "NaN" if math.isnan(number) else f"{number}"


class _Process:
    """One of the processes of a run: its metrics and its pace."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.series: dict[str, dict[str, WatchedSeries]] = {}
        self.last_step: float | None = None
        self.last_step_time: float | None = None
        self.last_time: float | None = None
        self.pace_step: float = 0
        self.pace_time: float | None = None
        self.intervals: deque[float] = deque(maxlen=_INTERVALS)
        self.durations: dict[str, deque[float]] = {}
        self.longest_pause = 0.0
        self.stalled: set[str] = set()
        self.attempt = 1
        self.phase = "train"

    def series_of(self, phase: str) -> dict[str, WatchedSeries]:
        """Return the metrics of *phase*, by name."""
        found = self.series.get(phase)
        if found is None:
            found = self.series[phase] = {}
        return found

    @property
    def interval(self) -> float | None:
        """The median of the last times between two steps; None before there are enough."""
        intervals = self.intervals
        return sorted(intervals)[len(intervals) // 2] if len(intervals) >= _LEAST_INTERVALS else None

    def keep_duration(self, name: str, value: float) -> None:
        """Keep how long a step took, by one of the measures that are compared between processes."""
        self.durations.setdefault(name, deque(maxlen=_RANK_VALUES)).append(value)


class HealthEvaluator:
    """Health rules, and where a run is with each of them.

    Every method takes in what happened next and returns the alerts, each incident's begin and end once. A run of
    several processes passes the *rank* of each; see ``several``.
    """

    def __init__(self, rules: Sequence[AnyRule], *, several: bool = False) -> None:
        """Begin with a run of which nothing is known; *several* processes are compared with each other."""
        self._of_metrics = [rule for rule in rules if isinstance(rule, MetricRule)]
        self._stalls = [rule for rule in rules if isinstance(rule, StallRule)]
        self._rank_rules = [rule for rule in rules if isinstance(rule, RankBehindRule)]
        self._behind: list[RankBehindRule] = []
        self._disk = [rule for rule in rules if isinstance(rule, DiskRule)]
        self._compared = {name for rule in self._rank_rules for name in rule.metric}
        self.several = False
        """Whether the run has several processes."""
        self._has_pace = any(rule.covers(PACE, "train") for rule in self._of_metrics)
        self._processes: dict[int, _Process] = {}
        self._world_size: int | None = None
        self._metrics = 0
        self.unwatched = 0
        """Number of metrics that are not watched, since there are too many."""
        self._until_ranks = _RANKS_EVERY
        self._full: set[str] = set()
        self._slow: dict[str, set[int]] = {}
        self._free: deque[tuple[float, float, float]] = deque()
        if several:
            self.expect_several()

    def expect_several(self) -> None:
        """Compare the processes of the run with each other from now on."""
        self.several = True
        self._behind = self._rank_rules
        self._has_pace = self._has_pace or bool(self._behind)

    def take(self, record: Record, *, rank: int = 0) -> list[HealthAlert]:
        """Take in a record of any log."""
        process = self._process(rank)
        kind = record.kind
        found: list[HealthAlert] = []
        if rank == 0:
            self._world_size = world_size_of(record) or self._world_size
        if kind == "run_start":
            process.phase = record.phase or "train"
        if kind == "run_resume" and record.profile == "toy/v1":
            from_step = record.get("from_step")
            self.rewind(from_step if isinstance(from_step, int | float) else 0, rank=rank)
        elif record.attempt != process.attempt:
            process.attempt = record.attempt
            step = record.step
            self.rewind(0 if step is None else step - 1, rank=rank)
        values = record.values
        time = record.time
        if values or time is not None:
            found = self.observe(
                values,
                step=record.step,
                time=time,
                phase=record.phase,
                rank=rank,
                is_progress=kind not in NO_PROGRESS,
                null_is_value=record.profile is not None,
            )
        if not found:
            return found
        if not record.line:
            # A record that was written just now: its line is not known.
            return found
        return [msgspec.structs.replace(alert, line=record.line, offset=record.offset) for alert in found]

    def observe(  # noqa: PLR0913 - each is a part of a record
        self,
        values: Mapping[str, float | None],
        *,
        step: float | None = None,
        time: float | None = None,
        phase: str | None = None,
        rank: int = 0,
        is_progress: bool = True,
        null_is_value: bool = True,
    ) -> list[HealthAlert]:
        """Take in *values* by name, of *step* and at *time* in seconds; None is a value that was not finite.

        Without *phase* they are of the usual one of the process.
        Without *is_progress* they do not show that training goes on. Without *null_is_value* None does not
        count as a value.
        """
        process = self._processes.get(rank) or self._process(rank)
        found: list[HealthAlert] = []
        phase = phase or process.phase
        if is_progress:
            self._note_progress(process, step, time, phase, found)
        at = -1 if step is None else step
        series_of = process.series_of(phase)
        for name, value in values.items():
            series = series_of.get(name)
            if series is None:
                series = series_of[name] = self._begin(name, phase, rank)
            # Written out: this is done for every value that a program logs.
            if series.calm and value is not None and series.low <= value <= series.high:
                window = series.window
                if window is not None:
                    window.append(value)
                    series.steps.append(at)
                    series.until_refresh -= 1
                    if series.until_refresh <= 0:
                        found += series.refresh(at)
            elif value is not None or null_is_value:
                found += series.take(value, at)
        if self._behind and is_progress:
            self._take_durations(process, values, found)
        if found and time is not None:
            return [msgspec.structs.replace(alert, time=time) for alert in found]
        return found

    def idle(self, seconds: float, *, rank: int = 0) -> list[HealthAlert]:
        """Take in that the last record with progress was *seconds* ago."""
        process = self._processes.get(rank)
        found: list[HealthAlert] = []
        if process is None or not is_of_latest_attempt(rank, self._world_size):
            return found
        for rule in self._stalls:
            limit = self._limit(rule, process)
            if seconds > limit and rule.name not in process.stalled and (process.last_step or 0) >= rule.after_step:
                process.stalled.add(rule.name)
                interval = "" if process.interval is None else f"; the median interval is {process.interval:.3g} s"
                text = f"{_no_step(process, seconds)}{interval}"
                place = self._place(process, process.last_step)
                found.append(begun(rule, text, value=seconds, threshold=limit, **place))
        return found

    def disk(self, *, free_bytes: float, log_bytes: float, time: float) -> list[HealthAlert]:
        """Take in how much room is left on the disk of the log, and the size of the log, at *time* in seconds."""
        samples = self._free
        samples.append((time, free_bytes, log_bytes))
        while samples and time - samples[0][0] > _DISK_SPAN_SECONDS:
            samples.popleft()
        span = time - samples[0][0]
        used = lost = 0.0
        if span >= _LEAST_DISK_SPAN_SECONDS:
            lost = (samples[0][1] - free_bytes) * 3600 / span
            used = (log_bytes - samples[0][2]) * 3600 / span
        found: list[HealthAlert] = []
        for rule in self._disk:
            fact, value, bound = _fullness(rule, free_bytes, lost, used)
            if fact and rule.name not in self._full:
                self._full.add(rule.name)
                found.append(begun(rule, fact, value=value, threshold=bound, time=time))
            elif not fact and rule.name in self._full and free_bytes > 1.1 * rule.free_bytes:
                self._full.discard(rule.name)
                text = f"{free_bytes / 1e9:.3g} GB are free"
                found.append(recovered(rule, text, value=free_bytes, time=time))
        return found

    def rewind(self, step: float, *, rank: int = 0) -> None:
        """Take in that the run goes on from *step*: neither what was after it nor the pause counts."""
        process = self._process(rank)
        for series_of in process.series.values():
            for series in series_of.values():
                series.rewind(step)
        process.last_time = process.last_step_time = process.pace_time = None
        process.last_step = step

    def _process(self, rank: int) -> _Process:
        if rank not in self._processes:
            self._processes[rank] = _Process(rank)
        return self._processes[rank]

    def _begin(self, name: str, phase: str, rank: int) -> WatchedSeries:
        rules = [rule for rule in self._of_metrics if rule.covers(name, phase)]
        self._metrics += 1
        if self._metrics > MOST_METRICS:
            self.unwatched += 1
            return _UNWATCHED
        return WatchedSeries(name, rules, rank if self.several else None) if rules else _UNWATCHED

    def _note_progress(
        self, process: _Process, step: float | None, time: float | None, phase: str, found: list[HealthAlert]
    ) -> None:
        if time is None:
            process.last_step = step if step is not None else process.last_step
            return
        last_time, process.last_time = process.last_time, time
        # A pause that is not the longest one is not a stall: nearly all are not, and this is done for each step.
        if last_time is not None and (time - last_time > process.longest_pause or process.stalled):
            self._end_pause(process, time - last_time, step, found)
        before, since = process.last_step, process.last_step_time
        if step is None or (before is not None and step <= before):
            return
        process.last_step, process.last_step_time = step, time
        if before is None or since is None or time < since:
            return
        process.intervals.append(time - since)
        if self._has_pace and phase == process.phase:
            if process.pace_time is None:
                process.pace_time, process.pace_step = since, before
            # A step of microseconds takes as long as the system likes; what many of them take says more.
            if time - process.pace_time >= _PACE_SECONDS:
                self._take_pace(process, step, time, found)

    def _take_pace(self, process: _Process, step: float, time: float, found: list[HealthAlert]) -> None:
        assert process.pace_time is not None
        pace = (time - process.pace_time) / (step - process.pace_step)
        process.pace_time, process.pace_step = time, step
        if self._behind:
            process.keep_duration(PACE, pace)
        series_of = process.series_of("")
        series = series_of.get(PACE)
        if series is None:
            series = series_of[PACE] = self._begin(PACE, "train", process.rank)
        found += series.take(pace, step)

    def _limit(self, rule: StallRule, process: _Process) -> float:
        # A pause as long as one before it, for an evaluation or a checkpoint, does not count as a stall.
        return max(rule.seconds, rule.times * (process.interval or 0.0), _PAUSES * process.longest_pause)

    def _end_pause(self, process: _Process, pause: float, step: float | None, found: list[HealthAlert]) -> None:
        for rule in self._stalls:
            if rule.name in process.stalled:
                process.stalled.discard(rule.name)
                text = f"steps come again, after {pause:.0f} s"
                found.append(recovered(rule, text, value=pause, **self._place(process, step)))
                continue
            limit = self._limit(rule, process)
            if pause > limit and (process.last_step or 0) >= rule.after_step:
                text = _no_step(process, pause)
                found.append(begun(rule, text, value=pause, threshold=limit, **self._place(process, step)))
        process.longest_pause = max(process.longest_pause, pause)

    def _take_durations(self, process: _Process, values: Mapping[str, float | None], found: list[HealthAlert]) -> None:
        """Keep how long a step took, and compare the processes with each other now and then."""
        for name in self._compared & values.keys():
            duration = values[name]
            if duration is not None:
                process.keep_duration(name, duration)
        self._until_ranks -= 1
        if self._until_ranks > 0 or len(self._processes) < 2:
            return
        self._until_ranks = _RANKS_EVERY
        furthest = max(each.last_step or 0 for each in self._all())
        for rule in self._behind:
            measure = next((each for each in rule.metric if self._all_have(each)), None)
            medians = {} if measure is None else {each.rank: median(each.durations[measure]) for each in self._all()}
            for each in self._all():
                others = [value for rank, value in medians.items() if rank != each.rank]
                usual = median(others) if others else 0.0
                took = medians.get(each.rank, 0.0)
                lag = _Lag("time per step" if measure == PACE else measure or "", took, usual, furthest)
                found.extend(self._compared_alerts(rule, each, lag))

    def _compared_alerts(self, rule: RankBehindRule, process: _Process, lag: _Lag) -> list[HealthAlert]:
        known = self._slow.setdefault(rule.name, set())
        missing = lag.furthest - (process.last_step or 0)
        members = {"step": process.last_step, "rank": process.rank, "time": process.last_time}
        if process.rank in known:
            if lag.is_slower(rule.by / 2) or missing > rule.steps / 2:
                return []
            known.discard(process.rank)
            text = f"rank {process.rank} keeps up with the others"
            return [recovered(rule, text, value=lag.took, **members)]
        if lag.furthest < rule.after_step or not (lag.is_slower(rule.by) or missing > rule.steps):
            return []
        known.add(process.rank)
        if lag.is_slower(rule.by):
            text = f"rank {process.rank} is {lag.took / lag.usual - 1:.0%} slower than the others: "
            text += f"its median {lag.measure} is {lag.took:.4g}, theirs {lag.usual:.4g}"
            return [begun(rule, text, value=lag.took, threshold=(1 + rule.by) * lag.usual, **members)]
        text = f"rank {process.rank} is {missing:g} steps behind the first"
        return [begun(rule, text, value=missing, threshold=rule.steps, **members)]

    def _all(self) -> Iterable[_Process]:
        return [each for rank, each in self._processes.items() if is_of_latest_attempt(rank, self._world_size)]

    def _all_have(self, name: str) -> bool:
        return all(len(each.durations.get(name, ())) >= _LEAST_RANK_VALUES for each in self._all())

    def _place(self, process: _Process, step: float | None) -> dict[str, Any]:
        rank = process.rank if self.several else None
        return {"step": step, "time": process.last_time, "rank": rank}


def _no_step(process: _Process, seconds: float) -> str:
    last = "" if process.last_step is None else f" after step {process.last_step:g}"
    return f"no step for {seconds:.0f} s{last}"


class _Lag(NamedTuple):
    """How long the steps of a process take, beside those of the others."""

    measure: str
    took: float
    usual: float
    furthest: float

    def is_slower(self, by: float) -> bool:
        """Return whether the process is slower by the share *by*."""
        return self.usual > 0 and self.took > (1 + by) * self.usual


def _fullness(rule: DiskRule, free: float, lost: float, used: float) -> tuple[str, float, float]:
    """Return what is wrong with the disk, the number, and its bound; *lost* and *used* are bytes per hour."""
    if free < rule.free_bytes:
        return f"{free / 1e9:.3g} GB are free on the disk of the log", free, rule.free_bytes
    if lost > 0 and free / lost < rule.hours:
        left = free / lost
        return f"the disk of the log is full in {left:.2g} hours: {free / 1e9:.3g} GB are free", left, rule.hours
    if rule.bytes_per_hour is not None and used > rule.bytes_per_hour:
        return f"the log grows by {used / 1e6:.3g} MB per hour", used, rule.bytes_per_hour
    return "", 0.0, 0.0


_UNWATCHED = WatchedSeries("", (), None)
