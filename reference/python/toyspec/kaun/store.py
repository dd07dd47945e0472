"""Keeps the scalars of a kaun/v1 run by their tags: the history, the latest value and the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toyspec.generated.kaun_v1 import Scalar

_NO_EPOCH = -1


class ScalarStore:
    """What is known of each tag. Memory grows with the number of scalars, all of which are kept."""

    def __init__(self, scalars: Iterable[Scalar] = ()) -> None:
        self._history: dict[str, list[Scalar]] = {}
        self._latest: dict[str, Scalar] = {}
        self._smallest: dict[str, Scalar] = {}
        self._largest: dict[str, Scalar] = {}
        self.update(scalars)

    @property
    def tags(self) -> list[str]:
        """Every tag, in the order of first appearance."""
        return list(self._history)

    def update(self, scalars: Iterable[Scalar]) -> None:
        """Take in *scalars*, in the order of the stream."""
        for scalar in scalars:
            self._take(scalar)

    def history(self, tag: str) -> list[Scalar]:
        """Return all scalars of *tag* in the order of the stream; none for a tag that is not known."""
        return list(self._history.get(tag, ()))

    def latest(self, tag: str) -> Scalar | None:
        """Return the scalar of the largest step, of those of the largest epoch, of those the last; None without one.

        A scalar without an epoch counts as before every epoch.
        """
        return self._latest.get(tag)

    def best(self, tag: str) -> Scalar | None:
        """Return the smallest scalar where the tag's last record says minimize, else the largest; None without one.

        What is not finite takes no part. Of equally good ones, the first is the best.
        """
        history = self._history.get(tag)
        if history is None:
            return None
        return (self._smallest if history[-1].minimize is True else self._largest).get(tag)

    def _take(self, scalar: Scalar) -> None:
        tag = scalar.tag
        self._history.setdefault(tag, []).append(scalar)
        latest = self._latest.get(tag)
        if latest is None or _order(scalar) >= _order(latest):
            self._latest[tag] = scalar
        if scalar.value is None:
            return
        smallest, largest = self._smallest.get(tag), self._largest.get(tag)
        if smallest is None or smallest.value is None or scalar.value < smallest.value:
            self._smallest[tag] = scalar
        if largest is None or largest.value is None or scalar.value > largest.value:
            self._largest[tag] = scalar


def _order(scalar: Scalar) -> tuple[int, int]:
    return scalar.step, _NO_EPOCH if scalar.epoch is UNSET else scalar.epoch
