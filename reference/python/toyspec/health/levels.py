"""The level of a metric and the best one so far, which rules compare values with beside the last ones."""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.health.rules import DivergedRule

WINDOW: Final = 101
"""Number of values of which the running median and ranges are."""
_LEAST_VALUES: Final = 20
_REFRESH: Final = 10
_SWINGS: Final = 50
"""Number of levels, one in ten values, among which the highest one before the best is."""
_FLAT: Final = 0.1
_RETURN: Final = 0.6
_YOUNG: Final = 500
"""Number of values after which a level may be away from the best one by no more than the rule says."""
# The least and the most that harder data multiply a loss by.
_JUMP: Final = (1.2, 4.0)
# How much farther than it fell, or swung, a metric has to rise.
_FALLS: Final = 1.2
# Swings count half after 2,000 values.
_FADING: Final = 0.5 ** (_REFRESH / 2000)
# The range from the 5th to the 95th percentile of a normal distribution, in standard deviations.
_DEVIATIONS: Final = 3.29


class BestLevel:
    """The running average of a metric, and the best one so far.

    Levels are kept with the sign of the goal, so that less is better.
    """

    def __init__(self, rule: DivergedRule) -> None:
        self._sign = 1.0 if rule.goal == "min" else -1.0
        self._is_mean = rule.average == "mean"
        self._count = rule.values
        self._values: deque[float] = deque(maxlen=max(WINDOW, rule.values))
        self._levels: deque[float] = deque(maxlen=_SWINGS)
        self._low = self._high = math.nan
        self._until_refresh = _LEAST_VALUES
        self._first = self._best = self._spread = math.nan
        self._fall = self._swing = 0.0
        self._age = 0

    def take(self, numbers: Sequence[float]) -> bool:
        """Take in finite values; return whether the best level and the bounds were computed."""
        self._values.extend(numbers)
        self._until_refresh -= len(numbers)
        if self._until_refresh > 0:
            return False
        self._until_refresh = _REFRESH
        self._age += _REFRESH
        self._refresh()
        return True

    def _refresh(self) -> None:
        level = self._sign * self.level
        self._levels.append(level)
        if not self.is_known:
            self._first = level
        is_better = not level >= self._best
        if is_better:
            ordered = sorted(self._values)
            at = len(ordered) // 20
            self._best, self._spread = level, (ordered[-1 - at] - ordered[at]) / _DEVIATIONS
            if self._is_mean:
                self._spread = statistics.pstdev(ordered)
            if self._sign > 0:
                # What has fallen so far may rise as far: the first wave of what has no trend.
                self._fall = max(self._levels) - level
        self._take_swing(level)

    def _take_swing(self, level: float) -> None:
        """Remember how far the level rose before it fell again: such waves are usual for the metric."""
        self._swing *= _FADING
        if not self._low <= level:
            self._low = self._high = level
        self._high = max(self._high, level)
        if self._high - level > _RETURN * (self._high - self._low):
            self._swing = max(self._swing, self._high - self._low)
            self._low = self._high = level

    @property
    def is_known(self) -> bool:
        """Whether there were enough values."""
        return not math.isnan(self._best)

    @property
    def level(self) -> float:
        """The average of the last values."""
        last = list(self._values)[-self._count :]
        if self._is_mean:
            return sum(last) / len(last)
        last.sort()
        return last[len(last) // 2]

    @property
    def best(self) -> float:
        """The best level since the last one that was accepted."""
        return self._sign * self._best

    def bound(self, rule: DivergedRule, part: float = 1.0) -> float:
        """Return the worst level that *rule* accepts; with *part*, a level that is as much nearer to the best one."""
        amount = abs(self._best) if rule.goal == "min" else max(abs(self._best), self._first - self._best)
        reach = max(rule.share * amount + rule.ranges * self._spread, _FALLS * self._fall) + _FALLS * self._swing
        if rule.goal == "min":
            # Little is known of the waves of a young run.
            reach *= 1 + max(0.0, 1 - self._age / _YOUNG)
        return self._sign * (self._best + part * reach)

    @property
    def is_flat(self) -> bool:
        """Whether the level is what it was before as many values as a window has."""
        if len(self._levels) <= WINDOW // _REFRESH:
            return False
        before, now = self._levels[-1 - WINDOW // _REFRESH], self._levels[-1]
        return now - before <= _FLAT * abs(now)

    @property
    def recent(self) -> float:
        """The mean of the last three levels, with the sign of the goal."""
        return sum(list(self._levels)[-3:]) / 3

    def has_jumped_to(self, level: float) -> bool:
        """Return whether *level* is above that of 20 values ago by what harder data make of a loss."""
        before = self._levels[-3] if len(self._levels) > 2 else math.nan
        return self._sign > 0 and 0 < _JUMP[0] * before < level < _JUMP[1] * before

    def has_fallen(self, level: float) -> bool:
        """Return whether the recent level is below *level* by more than noise."""
        return level - self.recent > self._spread * self.recent / self._best

    def accept(self) -> None:
        """Let the present level count as the best one from now on."""
        level = self._levels[-1]
        if self._best > 0:
            self._spread *= level / self._best
        self._best = level

    def rewind(self) -> None:
        """Forget the last values; the best level stays."""
        self._values.clear()
        self._until_refresh = _LEAST_VALUES
