"""Compares a run with health rules, record by record: the one answer to what a rule means.

It reads no clock, and of the disk only the files of rules of type expect, when it begins. So the same records have the
same alerts in the process that trains, in a program that watches, and in a check years later.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toyspec.core import rooms
from toyspec.core.escaping import shortened
from toyspec.core.reading.attempts import world_size_of
from toyspec.core.reading.run_files import is_of_latest_attempt
from toyspec.health.levels import WINDOW, BestLevel
from toyspec.health.rules import (
    PACE,
    RECOVERED,
    SETTLED,
    BoundRule,
    DivergedRule,
    ExpectRule,
    HealthAlert,
    MetricRule,
    NonfiniteRule,
    PlateauRule,
    SlowerRule,
    SpikeRule,
    StallRule,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from toyspec.core.reading.records import Record
    from toyspec.health.rules import AnyRule

    _Broken = tuple[str, float | None]
    """What is wrong, and the bound that the value was compared with."""

MOST_METRICS: Final = 10_000
"""Metrics beyond these are counted, and not watched: the names in a log must not use up the memory."""

_INTERVALS = 101
_LEAST_INTERVALS = 10
_PAUSES = 2.0
_PACE_SECONDS = 1.0
NO_PROGRESS: Final = frozenset(["system", "alert", "note", "run_end", "define", "artifact", "reference"])
"""Kinds of records that are written beside the training, and say nothing of its progress."""
LEAST_VALUES: Final = 50
"""Number of values before which only what is far away is a spike."""
# How many times as far that is.
_YOUNG_REACH: Final = 16.0
CALM_VALUES: Final = 5
"""Number of good values in a row that end an incident."""
_MOST_RANGES: Final = 1e6
MOST_INCIDENTS: Final = 3
"""Number of incidents of a rule and a metric after which only the 10th, the 100th and so on are reported.

Those of level error are reported each time.
"""
# From this incident on, a value has to be farther from the median than those before.
_RAISING_INCIDENT: Final = 2
# What was seen of a metric counts half after 2,000 values; it is looked at every ten.
_FADING: Final = 0.5 ** (10 / 2000)
_BEYOND_SEEN: Final = 1.6

# The last values that are compared with those before them, for what gets slower.
_RECENT = 30
_LEAST_REFERENCE = 60
_SLOWER_WINDOW = 150
_LEAST_PLATEAU = 50
_FIRST_REFRESH = 20
_REFRESH = 10
_LEAST_BLOCKS = 8
_LEAST_RATE = 1e-9
_MOST_BLOCKS = 400
# What a plateau takes for an improvement, in interquartile ranges.
_NOISE = 0.1
# A jump has landed after 30 values; by the 150th it is known whether it falls again, as a loss on harder data does.
_LANDED = 30
_TRIAL = 150
_RISES = 1.1
_NEW_LEVEL = "which counts as its level from now on; the incident goes on"
_LARGEST = sys.float_info.max
_MILESTONES: Final = frozenset(10**power for power in range(1, 16))


class Incident:
    """One rule about one subject, a metric or a process: whether it is broken, and what that hangs on."""

    def __init__(self, rule: Any, metric: str | None = None) -> None:
        self.rule = rule
        self.is_open = False
        self.broken = 0
        """Number of values in a row that break the rule."""
        self.calm = 0
        """Number of values in a row that do not."""
        self.best: float | None = None
        self.best_step: float = 0
        self.reference = 0.0
        """The level before the incident."""
        self.number = 0
        """Number of incidents so far."""
        self.back: tuple[float, float] | None = None
        """The bounds between which the incident is over, where these are not those of today."""
        self.since = 0
        """Number of values since it began."""
        self.is_settled = self.is_rearmed = self.is_of_mean = False
        self._is_counted = False
        self._metric = metric

    def begin(self, text: str, value: float, threshold: float | None = None, **place: Any) -> list[HealthAlert]:
        """Return the begin of the incident; nothing if it goes on."""
        if self.is_open and not self.is_rearmed:
            return []
        self.is_open = True
        self.is_settled = self.is_rearmed = False
        self.since = 0
        self.number += 1
        stop = self.rule.on == "stop"
        is_limited = self.rule.level != "error"
        self._is_counted = is_limited and self.number > MOST_INCIDENTS and self.number not in _MILESTONES
        if is_limited and self.number >= MOST_INCIDENTS:
            text = f"{text} (incident {self.number:,}; the next report is of the {10 ** len(str(self.number)):,}th)"
        return self._alert(value, level=self.rule.level, text=text, threshold=threshold, stop=stop, **place)

    def end(self, text: str, value: float, **place: Any) -> list[HealthAlert]:
        """Return the end of the incident; nothing if none goes on."""
        if not self.is_open:
            return []
        self.is_open = self.is_rearmed = False
        self.back = None
        return self._alert(value, level="info", text=f"{RECOVERED}{text}", event="recovered", **place)

    def settle(self, text: str, value: float, **place: Any) -> list[HealthAlert]:
        """Return that a new level counts from now on, while the incident goes on."""
        if not self.is_open:
            return []
        self.is_settled = True
        return self._alert(value, level="info", text=f"{SETTLED}{text}", event="settled", **place)

    def _alert(self, value: float, **members: Any) -> list[HealthAlert]:
        if self._is_counted:
            return []
        known = value if math.isfinite(value) else None
        return [HealthAlert(rule=self.rule.name, metric=self._metric, value=known, **members)]


class PaceHistory:
    """Medians and means of the blocks of a metric since the run began, for what gets slower."""

    def __init__(self, goal: str) -> None:
        self._is_rate = goal == "max"
        self._block: list[float] = []
        self._medians: list[float] = []
        self._means: list[float] = []
        self.best_median = math.nan
        """The best tenth of the medians."""
        self.later_mean = math.nan
        """The second worst one of the last four means, since one has an evaluation in it."""
        self.earlier_mean: float | None = None
        """The worst tenth of the means before; None if there are few."""

    def take(self, numbers: Sequence[float]) -> None:
        """Take in some values."""
        block = self._block
        block += numbers
        if len(block) < _RECENT:
            return
        self._medians.append(sorted(block)[len(block) // 2])
        # The mean of a throughput is that of its inverse: a pause counts with its time.
        seconds = [1 / max(number, _LEAST_RATE) for number in block] if self._is_rate else block
        mean = sum(seconds) / len(block)
        self._means.append(1 / mean if self._is_rate else mean)
        block.clear()
        for blocks in (self._medians, self._means):
            # Of too many, every second one is left out, but for the last ones.
            if len(blocks) > _MOST_BLOCKS:
                del blocks[: _MOST_BLOCKS // 2 : 2]
        self.best_median = _tenth(self._medians, is_lowest=not self._is_rate)
        if len(self._means) >= _LEAST_BLOCKS + 4:
            self.later_mean = sorted(self._means[-4:])[1 if self._is_rate else -2]
            self.earlier_mean = _tenth(self._means[:-4], is_lowest=self._is_rate)


def _tenth(values: Sequence[float], is_lowest: bool) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 10] if is_lowest else ordered[-1 - len(ordered) // 10]


def _side(rule: DivergedRule, bound: float) -> tuple[float, float]:
    return (-_LARGEST, bound) if rule.goal == "min" else (bound, _LARGEST)


class WatchedSeries:
    """The values of one metric, as far as the rules about it need them."""

    def __init__(self, name: str, rules: Sequence[MetricRule], rank: int | None) -> None:
        self._shown = "time per step" if name == PACE else shortened(name)
        self._rank = rank
        incidents = [Incident(rule, None if name == PACE else name) for rule in rules]
        self._of_windows = [each for each in incidents if isinstance(each.rule, PlateauRule | SlowerRule)]
        levels: dict[tuple[Any, ...], BestLevel] = {}
        self._of_levels: list[tuple[Incident, BestLevel]] = []
        for each in incidents:
            if isinstance(each.rule, DivergedRule):
                key = (each.rule.goal, each.rule.average, each.rule.values)
                self._of_levels.append((each, levels.setdefault(key, BestLevel(each.rule))))
        self._levels = tuple(levels.values())
        self._of_values = [
            each for each in incidents if not isinstance(each.rule, PlateauRule | SlowerRule | DivergedRule)
        ]
        self._bounding: list[tuple[Any, BestLevel | None]] = [(each.rule, level) for each, level in self._of_levels]
        self._bounding += [(rule, None) for rule in rules if isinstance(rule, SpikeRule | BoundRule)]
        self._needs_spread = any(isinstance(rule, SpikeRule | PlateauRule) for rule in rules)
        needs = [rule for rule in rules if isinstance(rule, SpikeRule | PlateauRule | SlowerRule | DivergedRule)]
        size = _SLOWER_WINDOW if any(isinstance(rule, SlowerRule) for rule in needs) else WINDOW
        self._window: deque[float] | None = deque(maxlen=size) if needs else None
        self._steps: deque[float] = deque(maxlen=size)
        self._is_calm = True
        self._flagged = 0
        self._until_refresh = self._behind = _FIRST_REFRESH
        self._first_step: float | None = None
        self._first_level: float | None = None
        self._highest_rise = 0.0
        self._seen_above = self._seen_below = 0.0
        goals = [rule.goal for rule in rules if isinstance(rule, SlowerRule)]
        self._history = PaceHistory(goals[0]) if goals else None
        self._reach = _YOUNG_REACH
        self._start_level()

    def take(self, value: float | None, step: float) -> Iterable[HealthAlert]:
        """Take in any value, also one that is not finite; None is not finite either. Return the alerts."""
        # Nearly every value of a log ends here.
        if self._is_calm and value is not None and self._low <= value <= self._high:
            return self._kept(value, step)
        number = _float(value)
        found: list[HealthAlert] = []
        is_flagged = False
        if self._levels and math.isfinite(number):
            found += self._levelled(number, step)
        for each in self._of_values:
            broken = self._breaks(each.rule, number)
            is_flagged = is_flagged or (isinstance(each.rule, SpikeRule) and broken is not None)
            found += self._counted(each, broken, number, step)
        if math.isfinite(number) and self._window is not None:
            # What is compared with the median must not move it; only a level that stays is a new one.
            self._flagged = self._flagged + 1 if is_flagged else 0
            if is_flagged and any(each.number >= _RAISING_INCIDENT for each in self._of_values):
                self._see([number])
            if not is_flagged:
                if self._levels:
                    # They have this one.
                    self._behind -= 1
                found += self._kept(number, step)
            elif self._flagged > WINDOW:
                found += self._settled(self._window, number, step)
        self._is_calm = not any(each.broken or each.is_open for each in self._of_values) and not any(
            each.broken or each.is_open for each, _ in self._of_levels
        )
        return found

    def _catch_up(self, window: list[float]) -> None:
        """Hand what the *window* got since the last time to the levels and to the history of the run."""
        count, self._behind = self._behind - self._until_refresh, self._until_refresh
        if count and (self._levels or self._history is not None):
            values = window[-count:]
            for level in self._levels:
                level.take(values)
            if self._history is not None:
                self._history.take(values)

    def _levelled(self, number: float, step: float) -> list[HealthAlert]:
        """Take a number that is not a usual one into the levels; return their alerts."""
        self._catch_up(list(self._window or ()))
        if sum(level.take((number,)) for level in self._levels):
            self._bound()
        known = [(each, level) for each, level in self._of_levels if level.is_known]
        return [alert for each, level in known for alert in self._diverged(each, level, number, step)]

    def _diverged(self, incident: Incident, level: BestLevel, number: float, step: float) -> list[HealthAlert]:
        """Return the alerts about the level of a metric beside its best one."""
        rule, place = incident.rule, self._place(step)
        if incident.back is not None and incident.is_open:
            incident.since += 1
            now = level.level
            if incident.back[0] <= now <= incident.back[1]:
                return incident.end(f"{self._shown} is {now:.4g} again, near its best level", now, **place)
            if incident.since >= WINDOW and not incident.is_settled and level.is_flat:
                level.accept()
                self._bound()
                return incident.settle(f"{self._shown} stays near {now:.4g}, {_NEW_LEVEL}", now, **place)
            return []
        low, high = _side(rule, level.bound(rule))
        if low <= (now := level.level) <= high:
            incident.broken = 0
            return []
        if self._is_on_trial(incident, level, now) or low <= number <= high:
            return []
        bound, best = level.bound(rule), level.best
        side = "above" if rule.goal == "min" else "below"
        text = f"{self._shown} is {now:.4g} over {rule.values} values, {side} {bound:.4g}; its best level is {best:.4g}"
        incident.back = _side(rule, level.bound(rule, 0.5))
        return self._begun(incident, text, now, bound, step)

    def _is_on_trial(self, incident: Incident, level: BestLevel, now: float) -> bool:
        """Return whether the level, *now*, came by one jump, as harder data bring it, and may yet fall again.

        If it does, the training learns: its level counts from then on.
        """
        if not incident.broken and not level.has_jumped_to(now):
            return False
        incident.broken += 1
        if incident.broken == _LANDED:
            incident.reference = level.recent
        if has_fallen := incident.broken > 2 * _LANDED and level.has_fallen(incident.reference):
            level.accept()
            self._bound()
        has_risen = incident.broken > _LANDED and level.recent > _RISES * incident.reference
        if has_fallen or has_risen or incident.broken > _TRIAL:
            incident.broken = 0
        return has_fallen or incident.broken > 0

    def _kept(self, number: float, step: float) -> Iterable[HealthAlert]:
        if self._window is None:
            return ()
        self._window.append(number)
        self._steps.append(step)
        self._until_refresh -= 1
        return self._refresh(self._window, step) if self._until_refresh <= 0 else ()

    def _start_level(self) -> None:
        self._flagged = 0
        self._median = self._spread = math.nan
        self._farthest = math.inf
        self._until_refresh = self._behind = _FIRST_REFRESH
        self._bound()

    def _settled(self, window: deque[float], number: float, step: float) -> list[HealthAlert]:
        found: list[HealthAlert] = []
        for each in self._of_values:
            if isinstance(each.rule, SpikeRule):
                each.back = each.back or self._range(each.rule)
                text = f"{self._shown} stays near {number:.4g}, {_NEW_LEVEL}"
                found += each.settle(text, number, **self._place(step))
                each.broken = each.calm = 0
        window.clear()
        self._steps.clear()
        self._start_level()
        return found

    def _counted(
        self, incident: Incident, broken: _Broken | None, number: float, step: float
    ) -> Iterable[HealthAlert]:  # fmt: skip
        if broken is not None:
            incident.calm = 0
            incident.broken += 1
            values = incident.rule.values
            times = f", {incident.broken} times in a row" if values > 1 else ""
            if incident.broken >= values:
                return self._begun(incident, broken[0] + times, number, broken[1], step)
        elif not math.isfinite(number) and not isinstance(incident.rule, NonfiniteRule):
            incident.calm = 0
        else:
            incident.broken = 0
            incident.calm += 1
            if incident.back is not None and not incident.back[0] <= number <= incident.back[1]:
                # Good beside the level of today, and not beside the one before the incident.
                incident.is_rearmed = incident.is_rearmed or incident.calm >= CALM_VALUES
            elif incident.calm >= CALM_VALUES:
                text = f"{self._shown} is {_shown(number)} again: {CALM_VALUES} good values in a row"
                return incident.end(text, number, **self._place(step))
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
        # Of a metric that is nearly constant, the range says nothing.
        is_varied = far < _MOST_RANGES * self._spread
        times = f"{far / self._spread:.3g} interquartile ranges" if is_varied else f"{far:.4g}"
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
        reach = self._reach * max(reach, max(rule.share, 1e-9) * abs(self._median), rule.least, sys.float_info.min)
        amount = _BEYOND_SEEN * abs(self._median)
        above, below = max(reach, amount * self._seen_above), max(reach, amount * self._seen_below)
        low = -_LARGEST if rule.direction == "up" else self._median - below
        high = _LARGEST if rule.direction == "down" else self._median + above
        return low, high

    def _bound(self) -> None:
        """Set the bounds between which no rule is broken."""
        lowest, highest = -_LARGEST, _LARGEST
        for rule, level in self._bounding:
            if level is None or level.is_known:
                low, high = self._range(rule) if level is None else _side(rule, level.bound(rule))
                lowest, highest = max(lowest, low), min(highest, high)
        self._low, self._high = lowest, highest

    def _refresh(self, window: deque[float], step: float) -> list[HealthAlert]:
        """Compute median, range and bounds from the window; return the alerts of rules about the window as a whole."""
        values = list(window)
        self._catch_up(values)
        size = len(values)
        if size >= _FIRST_REFRESH:
            if self._needs_spread:
                ordered = sorted(values)
                self._reach = 1.0 if size >= LEAST_VALUES else _YOUNG_REACH
                self._median = ordered[size // 2]
                self._spread = ordered[3 * size // 4] - ordered[size // 4]
                # Of few values, the farthest is not yet known.
                known = size >= WINDOW // 2
                self._farthest = max(ordered[-1] - self._median, self._median - ordered[0]) if known else math.inf
                if size >= LEAST_VALUES:
                    self._see(values[-_REFRESH:])
            self._bound()
        self._until_refresh = self._behind = _REFRESH if size >= WINDOW // 2 else 4
        if self._first_step is None:
            self._first_step = self._steps[0]
        found: list[HealthAlert] = []
        for each in self._of_windows:
            if isinstance(each.rule, PlateauRule) and size >= _LEAST_PLATEAU:
                found += self._plateau(each, values, step)
            elif isinstance(each.rule, SlowerRule) and size >= _RECENT + _LEAST_REFERENCE:
                found += self._slower(each, values, step)
        return found

    def _see(self, values: Sequence[float]) -> None:
        """Remember how far from the median values are, as a share of it."""
        median, amount = self._median, abs(self._median)
        self._seen_above *= _FADING
        self._seen_below *= _FADING
        if amount:
            self._seen_above = max(self._seen_above, (max(values) - median) / amount)
            self._seen_below = max(self._seen_below, (median - min(values)) / amount)

    def _plateau(self, incident: Incident, window: Collection[float], step: float) -> list[HealthAlert]:
        best, rule = incident.best, incident.rule
        # The median of what is 0 or 1, as many rewards are, does not move for long.
        median, average = (self._median, "median") if rule.goal == "min" else (sum(window) / len(window), "mean")
        sign = 1 if rule.goal == "min" else -1
        if self._first_level is None:
            self._first_level = median
        if best is None or sign * (best - median) > max(rule.by * abs(best), _NOISE * self._spread, 1e-12):
            incident.best, incident.best_step = median, step
            return incident.end(f"{self._shown} improves again, to {median:.4g}", median, **self._place(step))
        self._highest_rise = max(self._highest_rise, sign * (median - best))
        waited = step - incident.best_step
        if waited < max(rule.steps, rule.share * (step - (self._first_step or 0))):
            return []
        # What has no trend, as the losses of two adversaries, is on no plateau.
        if sign * (self._first_level - best) <= max(self._spread, 2 * self._highest_rise):
            return []
        text = (
            f"{self._shown} has not improved for {waited:g} steps: its {average} is {median:.4g}, the best {best:.4g}"
        )
        return self._begun(incident, text, median, best, step)

    def _slower(self, incident: Incident, values: list[float], step: float) -> list[HealthAlert]:
        rule, recent = incident.rule, sorted(values[-_RECENT:])[_RECENT // 2]
        sign = 1 if rule.goal == "min" else -1
        assert self._history is not None
        if incident.is_open:
            now = self._history.later_mean if incident.is_of_mean else recent
            is_over = sign * (now - incident.reference) < rule.by / 2 * abs(incident.reference)
            return incident.end(f"{self._shown} is {now:.4g} again", now, **self._place(step)) if is_over else []
        before = sorted(values[:-_RECENT])
        incident.is_of_mean = False
        now, reference, name = recent, before[len(before) // 2], "its median {:.4g} before"
        spread = before[3 * len(before) // 4] - before[len(before) // 4]
        least = max(rule.by * reference, spread)
        if sign * (now - reference) <= least:
            # What gets slower little by little is slow beside the best of the run.
            reference, name = self._history.best_median, "the best tenth, {:.4g}"
            least = max(2 * rule.by * reference, spread)
        if sign * (now - reference) <= least and (earlier := self._history.earlier_mean) is not None:
            now, reference, incident.is_of_mean = self._history.later_mean, earlier, True
            least, name = 2 * rule.by * reference, "the worst tenth before, {:.4g}"
        worse = sign * (now - reference)
        if reference <= 0 or worse <= least:
            return []
        incident.reference = reference
        average = " on average" if incident.is_of_mean else ""
        text = f"{self._shown} is {now:.4g}{average} over {_RECENT} values, {worse / reference:.0%} "
        text += f"{'more' if sign > 0 else 'less'} than {name.format(reference)}"
        return self._begun(incident, text, now, reference + sign * least, step)

    def rewind(self, step: float) -> None:
        """Forget the values after *step*: the run goes on from there."""
        window = self._window
        while window and self._steps[-1] > step:
            self._steps.pop()
            window.pop()
        for each in (*self._of_values, *self._of_windows):
            each.broken = each.calm = 0
            each.best_step = min(each.best_step, step)
        self._flagged = 0
        self._seen_above = self._seen_below = 0.0
        for level in self._levels:
            level.rewind()
        self._behind = self._until_refresh
        if window:
            until = self._until_refresh
            self._refresh(window, step)
            self._until_refresh = self._behind = min(until, self._until_refresh)

    def _begun(
        self, incident: Incident, text: str, value: float, threshold: float | None, step: float
    ) -> list[HealthAlert]:
        """Begin an incident, unless the rule applies later; without steps *step* is negative."""
        if 0 <= step < incident.rule.after_step:
            return []
        return incident.begin(text, value, threshold, **self._place(step))

    def _place(self, step: float) -> dict[str, Any]:
        return {"step": step if step >= 0 else None, "rank": self._rank}


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

    def __init__(self, rank: int, rules: Iterable[AnyRule]) -> None:
        self.rank = rank
        self.stalls = [Incident(rule) for rule in rules if isinstance(rule, StallRule)]
        self.series: dict[str, dict[str, WatchedSeries]] = {}
        self.last_step: float | None = None
        self.last_step_time: float | None = None
        self.last_time: float | None = None
        self.pace_step: float = 0
        self.pace_time: float | None = None
        self.intervals: deque[float] = deque(maxlen=_INTERVALS)
        self.longest_pause = 0.0
        self.attempt = 1
        self.phase = "train"

    @property
    def interval(self) -> float | None:
        """The median of the last times between two steps; None before there are enough."""
        intervals = self.intervals
        return sorted(intervals)[len(intervals) // 2] if len(intervals) >= _LEAST_INTERVALS else None


class HealthEvaluator:
    """Health rules, and where a run is with each of them.

    Every method takes in what happened next and returns the alerts, each incident's begin and end once. A run of
    several processes passes the *rank* of each.
    """

    def __init__(self, rules: Sequence[AnyRule], *, several: bool = False) -> None:
        """Begin with a run of which nothing is known; alerts of *several* processes name their rank."""
        self._of_metrics = [rule for rule in rules if isinstance(rule, MetricRule)]
        self._rules = rules
        self._expected = {
            rule.name: rooms.expect_bands.read_expectation(rule.file).metrics
            for rule in rules
            if isinstance(rule, ExpectRule)
        }
        self.several = several
        """Whether the run has several processes."""
        self._has_pace = any(rule.covers(PACE, "train") for rule in self._of_metrics)
        self._processes: dict[int, _Process] = {}
        self._world_size: int | None = None
        self._metrics = 0
        self.unwatched = 0
        """Number of metrics that are not watched, since there are too many."""

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
        process = self._process(rank)
        found: list[HealthAlert] = []
        phase = phase or process.phase
        if is_progress:
            self._note_progress(process, step, time, phase, found)
        at = -1 if step is None else step
        series_of = process.series.setdefault(phase, {})
        for name, value in values.items():
            series = series_of.get(name)
            if series is None:
                series = series_of[name] = self._begin(name, phase, rank)
            if value is not None or null_is_value:
                found += series.take(value, at)
        if found and time is not None:
            return [msgspec.structs.replace(alert, time=time) for alert in found]
        return found

    def idle(self, seconds: float, *, rank: int = 0, time: float | None = None) -> list[HealthAlert]:
        """Take in that the last record with progress was *seconds* ago; with *time*, the last record, of that time."""
        process = self._processes.get(rank)
        found: list[HealthAlert] = []
        if process is None or not is_of_latest_attempt(rank, self._world_size):
            return found
        if time is not None and process.last_time is not None:
            seconds += max(0.0, time - process.last_time)
        for each in process.stalls:
            limit = _limit(each.rule, process)
            if seconds > limit and (process.last_step or 0) >= each.rule.after_step:
                interval = "" if process.interval is None else f"; the median interval is {process.interval:.3g} s"
                text = f"{_no_step(process, seconds)}{interval}"
                found += each.begin(text, seconds, limit, **self._place(process, process.last_step))
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
            self._processes[rank] = _Process(rank, self._rules)
        return self._processes[rank]

    def _begin(self, name: str, phase: str, rank: int) -> Any:
        rules = [rule for rule in self._of_metrics if rule.covers(name, phase)]
        self._metrics += 1
        if self._metrics > MOST_METRICS:
            self.unwatched += 1
            return _UNWATCHED
        of_run = rank if self.several else None
        others = [rule for rule in rules if rule.name not in self._expected]
        series: Any = WatchedSeries(name, others, of_run) if others else _UNWATCHED
        full_name = name if phase == self._process(rank).phase else f"{phase}/{name}"
        for rule in rules:
            bands = self._expected.get(rule.name, {}).get(full_name)
            if bands is not None:
                series = rooms.expect_live.ExpectedSeries(full_name, bands, series, Incident(rule, name), of_run)
        return series

    def _note_progress(
        self, process: _Process, step: float | None, time: float | None, phase: str, found: list[HealthAlert]
    ) -> None:
        if time is None:
            process.last_step = step if step is not None else process.last_step
            return
        last_time, process.last_time = process.last_time, time
        # A pause that is not the longest one is not a stall: nearly all are not, and this is done for each step.
        if last_time is not None and (
            time - last_time > process.longest_pause or any(each.is_open for each in process.stalls)
        ):
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
        series_of = process.series.setdefault("", {})
        if PACE not in series_of:
            series_of[PACE] = self._begin(PACE, "train", process.rank)
        found += series_of[PACE].take(pace, step)

    def _end_pause(self, process: _Process, pause: float, step: float | None, found: list[HealthAlert]) -> None:
        place = self._place(process, step)
        for each in process.stalls:
            if each.is_open:
                found += each.end(f"steps come again, after {pause:.0f} s", pause, **place)
                continue
            limit = _limit(each.rule, process)
            if pause > limit and (process.last_step or 0) >= each.rule.after_step:
                found += each.begin(_no_step(process, pause), pause, limit, **place)
                each.is_open = False
        process.longest_pause = max(process.longest_pause, pause)

    def _place(self, process: _Process, step: float | None) -> dict[str, Any]:
        rank = process.rank if self.several else None
        return {"step": step, "time": process.last_time, "rank": rank}


def _no_step(process: _Process, seconds: float) -> str:
    last = "" if process.last_step is None else f" after step {process.last_step:g}"
    return f"no step for {seconds:.0f} s{last}"


def _limit(rule: StallRule, process: _Process) -> float:
    # A pause as long as one before it, for an evaluation or a checkpoint, does not count as a stall.
    return max(rule.seconds, rule.times * (process.interval or 0.0), _PAUSES * process.longest_pause)


_UNWATCHED = WatchedSeries("", (), None)
