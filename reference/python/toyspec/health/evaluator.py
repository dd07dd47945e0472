"""Compares a run with health rules, record by record: the one answer to what a rule means.

It reads no clock and no disk, so that the same records have the same alerts in the process that trains, in a program
that watches, and in a check years later.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from toyspec.core.reading.attempts import world_size_of
from toyspec.core.reading.run_files import is_of_latest_attempt
from toyspec.health.alerts import begun, recovered
from toyspec.health.rules import PACE, DiskRule, MetricRule, RankBehindRule, StallRule
from toyspec.health.series import WatchedSeries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toyspec.core.reading.records import Record
    from toyspec.health.alerts import HealthAlert
    from toyspec.health.rules import AnyRule

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
