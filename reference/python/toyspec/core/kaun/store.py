"""Keeps the scalars of a kaun/v1 run by their tags: the history, the latest value and the best."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toyspec.core.kaun.scalars import is_smaller_better, lateness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.core.generated.kaun_v1 import Scalar


class ScalarStore:
    """What is known of each tag. Memory grows with the number of scalars, all of which are kept."""

    def __init__(self, scalars: Iterable[Scalar] = ()) -> None:
        self.clear()
        self.update(scalars)

    @property
    def tags(self) -> list[str]:
        """Every tag, in the order of first appearance."""
        return list(self._history)

    @property
    def latest_epoch(self) -> int | None:
        """The largest epoch of all scalars; None where none has one."""
        return self._epoch

    @property
    def latest_metrics(self) -> dict[str, Scalar]:
        """For each tag, sorted, the scalar of the largest step, of those of the largest epoch, of those the first.

        A scalar without an epoch counts as before every epoch.
        """
        return {tag: self._latest[tag] for tag in sorted(self._latest)}

    @property
    def best_metrics(self) -> dict[str, Scalar]:
        """For each tag that has one, sorted, what ``best_for_tag`` returns."""
        found = {tag: self.best_for_tag(tag) for tag in sorted(self._history)}
        return {tag: scalar for tag, scalar in found.items() if scalar is not None}

    def update(self, scalars: Iterable[Scalar]) -> None:
        """Take in *scalars*, in the order of the stream."""
        for scalar in scalars:
            self._take(scalar)

    def history_for_tag(self, tag: str) -> list[Scalar]:
        """Return all scalars of *tag* in the order of the stream; none for a tag that is not known."""
        return list(self._history.get(tag, ()))

    def best_for_tag(self, tag: str) -> Scalar | None:
        """Return the scalar with the smallest value where smaller is better, else with the largest; None without one.

        Smaller is better if the last ``minimize`` of the tag is true or, without any, if the tag has ``loss``
        or ``error`` in it. What is not finite takes no part. Of equal ones, the first is the best.
        """
        smaller = is_smaller_better(tag, self._minimize.get(tag))
        return (self._smallest if smaller else self._largest).get(tag)

    def clear(self) -> None:
        """Forget all scalars."""
        self._history: dict[str, list[Scalar]] = {}
        self._latest: dict[str, Scalar] = {}
        self._smallest: dict[str, Scalar] = {}
        self._largest: dict[str, Scalar] = {}
        self._minimize: dict[str, bool] = {}
        self._epoch: int | None = None

    def _take(self, scalar: Scalar) -> None:
        tag = scalar.tag
        self._history.setdefault(tag, []).append(scalar)
        latest = self._latest.get(tag)
        if latest is None or lateness(scalar.step, scalar.epoch) > lateness(latest.step, latest.epoch):
            self._latest[tag] = scalar
        if scalar.epoch is not None:
            self._epoch = scalar.epoch if self._epoch is None else max(self._epoch, scalar.epoch)
        if scalar.minimize is not None:
            self._minimize[tag] = scalar.minimize
        if not math.isfinite(scalar.value):
            return
        smallest, largest = self._smallest.get(tag), self._largest.get(tag)
        if smallest is None or scalar.value < smallest.value:
            self._smallest[tag] = scalar
        if largest is None or scalar.value > largest.value:
            self._largest[tag] = scalar
