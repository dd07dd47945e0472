"""Tokens as an axis: how many a run has had, where it logs how many each step had."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from toyspec.view.buckets import Buckets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def token_totals(tokens: Buckets) -> Buckets:
    """Return *tokens* with the number of tokens up to the end of each bucket as ``last``.

    A count that rises at every point is such a number already. Another one is that of each step, as ``tokens`` of
    toy/v1, and is added up.
    """
    points = [tokens.level - others for others in tokens.columns["nan"]]
    if points:
        points[-1] += tokens.tail - tokens.level
    if _rises(tokens.columns, points):
        return tokens
    totals, total = array("d"), 0.0
    for mean, number in zip(tokens.columns["mean"], points, strict=True):
        if number:
            total += mean * number
        totals.append(total)
    return Buckets({**tokens.columns, "last": totals}, tokens.level, tokens.tail)


def _rises(columns: Mapping[str, array[float]], points: Sequence[float]) -> bool:
    """Return whether each bucket with finite *points* is above the one before, and its last point its highest."""
    before = -1.0
    for low, high, last, number in zip(columns["min"], columns["max"], columns["last"], points, strict=True):
        if number:
            if low <= before or high > last or (low == high and number > 1):
                return False
            before = last
    return True


class TokenPlaces:
    """The place of records among the tokens of a run, as ``token_totals`` gives it."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._total: float | None = 0.0
        self._step: int | None = None
        self._rises = True
        self._waiting: list[tuple[dict[str, Any], float, float | None]] = []

    def take(self, record: Mapping[str, Any], tokens: float | None) -> None:
        """Take in the next record, which counts *tokens* or none."""
        if record.get("kind") == "run_resume" and record.get("from_step") != self._step:
            # How many tokens the abandoned steps had is not kept.
            self._total = None
        if type(step := record.get("step")) is int:
            self._step = step
        if tokens is not None:
            self._rises = self._rises and tokens > (-1.0 if self._last is None else self._last)
            self._last = tokens
            if self._total is not None:
                self._total += tokens

    def place(self, item: dict[str, Any]) -> None:
        """Give *item* the place of the last record, once ``finish`` is called; None where it is not known."""
        item["tokens"] = None
        if self._last is not None:
            self._waiting.append((item, self._last, self._total))

    def finish(self) -> None:
        """Give their places to all items."""
        for item, last, total in self._waiting:
            item["tokens"] = last if self._rises else total
        self._waiting.clear()
