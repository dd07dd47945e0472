"""The values of one metric under the rules about it: windows, bounds and incidents."""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from toyspec.core.escaping import shortened
from toyspec.health.alerts import begun, recovered
from toyspec.health.rules import PACE, BoundRule, NonfiniteRule, PlateauRule, SlowerRule, SpikeRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.health.alerts import HealthAlert
    from toyspec.health.rules import MetricRule

    _Broken = tuple[str, float | None]
    """What is wrong, and the bound that the value was compared with."""

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

    __slots__ = ("best", "best_step", "broken", "calm", "is_open", "reference", "rule")

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

    __slots__ = (
        "_farthest",
        "_first_step",
        "_fixed",
        "_flagged",
        "_median",
        "_name",
        "_of_windows",
        "_rank",
        "_spikes",
        "_spread",
        "_states",
        "calm",
        "high",
        "low",
        "steps",
        "until_refresh",
        "window",
    )  # fmt: skip

    def __init__(self, name: str, rules: Sequence[MetricRule], rank: int | None) -> None:
        self._name = name
        self._rank = rank
        self._states = [_RuleState(rule) for rule in rules]
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
        self._spikes = [rule for rule in rules if isinstance(rule, SpikeRule)]
        self._fixed = _fixed_bounds(rules)
        self._of_windows = [state for state in self._states if isinstance(state.rule, PlateauRule | SlowerRule)]
        self.low, self.high = self._fixed

    def take(self, value: float | None, step: float) -> list[HealthAlert]:
        """Take in any value, also one that is not finite; None is not finite either. Return the alerts."""
        number = _float(value)
        found: list[HealthAlert] = []
        is_flagged = False
        for state in self._states:
            broken = self._breaks(state.rule, number)
            is_flagged = is_flagged or (isinstance(state.rule, SpikeRule) and broken is not None)
            if isinstance(state.rule, PlateauRule | SlowerRule):
                continue
            self._count(state, broken, number, step, found)
        if math.isfinite(number):
            self._keep(number, step, found, is_flagged=is_flagged)
        self.calm = not any(state.broken or self._is_counting(state) for state in self._states)
        return found

    @staticmethod
    def _is_counting(state: _RuleState) -> bool:
        return state.is_open and not isinstance(state.rule, PlateauRule | SlowerRule)

    def _keep(self, number: float, step: float, found: list[HealthAlert], *, is_flagged: bool) -> None:
        if self.window is None:
            return
        if is_flagged:
            # What is compared with the median must not move it; only a level that stays is a new one.
            self._flagged += 1
            if self._flagged > WINDOW:
                self._take_level(number, step, found)
            return
        self._flagged = 0
        self.window.append(number)
        self.steps.append(step)
        self.until_refresh -= 1
        if self.until_refresh <= 0:
            found.extend(self.refresh(step))

    def _take_level(self, number: float, step: float, found: list[HealthAlert]) -> None:
        assert self.window is not None
        self.window.clear()
        self.steps.clear()
        self._flagged = 0
        self._median = self._spread = math.nan
        self.until_refresh = LEAST_VALUES
        for state in self._states:
            if isinstance(state.rule, SpikeRule):
                if state.is_open:
                    text = f"{self._shown} stays near {number:.4g}, which counts as its level from now on"
                    found.append(self._recovered(state.rule, text, number, step))
                state.is_open = False
                state.broken = state.calm = 0
        self._bound()

    def _count(
        self, state: _RuleState, broken: _Broken | None, number: float, step: float,
        found: list[HealthAlert],
    ) -> None:  # fmt: skip
        rule: Any = state.rule
        if not math.isfinite(number) and not isinstance(rule, NonfiniteRule):
            state.calm = 0
            return
        if broken is not None:
            state.calm = 0
            state.broken += 1
            if not state.is_open and state.broken >= rule.values and _is_due(rule, step):
                state.is_open = True
                times = f", {state.broken} times in a row" if rule.values > 1 else ""
                found.append(self._begun(rule, broken[0] + times, number, broken[1], step))
            return
        state.broken = 0
        if state.is_open:
            state.calm += 1
            if state.calm >= CALM_VALUES:
                state.is_open = False
                text = f"{self._shown} is {_shown(number)} again: {CALM_VALUES} good values in a row"
                found.append(self._recovered(rule, text, number, step))

    def _breaks(self, rule: MetricRule, number: float) -> _Broken | None:
        """Return what is wrong with *number* by *rule*, and the bound; None if nothing is."""
        if isinstance(rule, NonfiniteRule):
            return None if math.isfinite(number) else (f"{self._shown} is {_shown(number)}", None)
        if not math.isfinite(number):
            return None
        if isinstance(rule, BoundRule):
            return self._beyond_bound(rule, number)
        return self._beyond_median(rule, number) if isinstance(rule, SpikeRule) else None

    def _beyond_bound(self, rule: BoundRule, number: float) -> _Broken | None:
        if rule.above is not None and number > rule.above:
            return f"{self._shown} is {number:.4g}, above {rule.above:.4g}", rule.above
        if rule.below is not None and number < rule.below:
            return f"{self._shown} is {number:.4g}, below {rule.below:.4g}", rule.below
        return None

    def _beyond_median(self, rule: SpikeRule, number: float) -> _Broken | None:
        if math.isnan(self._median):
            return None
        low, high = self._reach(rule)
        if low <= number <= high:
            return None
        side, bound = ("above", high) if number > high else ("below", low)
        far = abs(number - self._median)
        times = f"{far / self._spread:.3g} interquartile ranges" if self._spread > 0 else f"{far:.4g}"
        return f"{self._shown} is {number:.4g}, {times} {side} its median {self._median:.4g}", bound

    def _reach(self, rule: SpikeRule) -> tuple[float, float]:
        reach = rule.beyond * self._spread
        if rule.farthest is not None:
            # Where most values are scattered, a range says little of how far the farthest ones are.
            reach = min(reach, rule.farthest * self._farthest)
        reach = max(reach, rule.share * abs(self._median), rule.least)
        # Rounding must not make a constant metric spike.
        reach = max(reach, 1e-9 * abs(self._median), sys.float_info.min)
        low = -_LARGEST if rule.direction == "up" else self._median - reach
        high = _LARGEST if rule.direction == "down" else self._median + reach
        return low, high

    def _bound(self) -> None:
        """Set the bounds between which no rule is broken."""
        low, high = self._fixed
        if not math.isnan(self._median):
            for rule in self._spikes:
                near, far = self._reach(rule)
                low, high = max(low, near), min(high, far)
        self.low, self.high = low, high

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
                self._look_for_plateau(state, state.rule, step, found)
            elif isinstance(state.rule, SlowerRule) and size >= _RECENT + _LEAST_REFERENCE:
                self._look_for_slower(state, state.rule, step, found)
        return found

    def _look_for_plateau(self, state: _RuleState, rule: PlateauRule, step: float, found: list[HealthAlert]) -> None:
        sign = 1 if rule.goal == "min" else -1
        median = self._median
        best = state.best
        if best is None or sign * (best - median) > max(rule.by * abs(best), 1e-12):
            state.best, state.best_step = median, step
            if state.is_open:
                state.is_open = False
                text = f"{self._shown} improves again, to {median:.4g}"
                found.append(self._recovered(rule, text, median, step))
            return
        waited = step - state.best_step
        least = max(rule.steps, rule.share * (step - (self._first_step or 0)))
        if not state.is_open and waited >= least and _is_due(rule, step):
            state.is_open = True
            text = (
                f"{self._shown} has not improved for {waited:g} steps: its median is {median:.4g}, the best {best:.4g}"
            )
            found.append(self._begun(rule, text, median, best, step))

    def _look_for_slower(self, state: _RuleState, rule: SlowerRule, step: float, found: list[HealthAlert]) -> None:
        assert self.window is not None
        values = list(self.window)
        recent = sorted(values[-_RECENT:])[_RECENT // 2]
        before = sorted(values[:-_RECENT])
        sign = 1 if rule.goal == "min" else -1
        if state.is_open:
            if sign * (recent - state.reference) < rule.by / 2 * abs(state.reference):
                state.is_open = False
                text = f"{self._shown} is {recent:.4g} again"
                found.append(self._recovered(rule, text, recent, step))
            return
        reference = before[len(before) // 2]
        spread = before[3 * len(before) // 4] - before[len(before) // 4]
        worse = sign * (recent - reference)
        if reference > 0 and worse > max(rule.by * reference, spread) and _is_due(rule, step):
            state.is_open, state.reference = True, reference
            bound = reference + sign * max(rule.by * reference, spread)
            text = f"{self._shown} is {recent:.4g} over {_RECENT} values, {worse / reference:.0%} "
            text += f"{'more' if sign > 0 else 'less'} than its median {reference:.4g} before"
            found.append(self._begun(rule, text, recent, bound, step))

    def rewind(self, step: float) -> None:
        """Forget the values after *step*: the run goes on from there."""
        while self.steps and self.steps[-1] > step:
            self.steps.pop()
            assert self.window is not None
            self.window.pop()
        for state in self._states:
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

    def _begun(self, rule: MetricRule, text: str, value: float, threshold: float | None, step: float) -> HealthAlert:
        return begun(rule, text, threshold=threshold, **self._place(value, step))

    def _recovered(self, rule: MetricRule, text: str, value: float, step: float) -> HealthAlert:
        return recovered(rule, text, **self._place(value, step))

    def _place(self, value: float, step: float) -> dict[str, Any]:
        return {
            "metric": None if self._name == PACE else self._name,
            "value": value if math.isfinite(value) else None,
            "step": step if step >= 0 else None,
            "rank": self._rank,
        }


def _fixed_bounds(rules: Sequence[MetricRule]) -> tuple[float, float]:
    """Return the bounds of the *rules* that do not depend on the values."""
    bounds = [rule for rule in rules if isinstance(rule, BoundRule)]
    low = max((rule.below for rule in bounds if rule.below is not None), default=-_LARGEST)
    high = min((rule.above for rule in bounds if rule.above is not None), default=_LARGEST)
    return max(low, -_LARGEST), min(high, _LARGEST)


def _is_due(rule: MetricRule, step: float) -> bool:
    """Return whether the rule applies at *step*, which is negative in a log without steps."""
    return step >= rule.after_step or step < 0


def _float(value: float | None) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _shown(number: float) -> str:
    return f"{number:.4g}" if math.isfinite(number) else "NaN" if math.isnan(number) else f"{number}"
