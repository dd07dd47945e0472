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
    from collections.abc import Iterable, Sequence

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
