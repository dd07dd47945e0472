"""Compares a log that grows with health rules, from its bytes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toyspec.health.evaluator import HealthEvaluator
from toyspec.reading.followed_feed import followed_feed
from toyspec.reading.profile_detection import detect_profile_at
from toyspec.reading.records import Record, RecordFeed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.health.alerts import HealthAlert
    from toyspec.health.rules import AnyRule
    from toyspec.reading.log_detection import DialectChoice


class LiveHealth:
    """The rules, and where the log at *path* is with them. Begin again with a new one when the file is replaced."""

    def __init__(self, path: str, rules: Sequence[AnyRule], choice: DialectChoice) -> None:
        self._feed = followed_feed(choice, partial(RecordFeed), path, partial(detect_profile_at, path))
        self._evaluator = HealthEvaluator(rules)

    def feed(self, data: bytes) -> list[HealthAlert]:
        """Return the alerts of the records that *data*, the bytes that come next, commits."""
        found: list[HealthAlert] = []
        for item in self._feed.feed(data):
            if isinstance(item, Record):
                found += self._evaluator.take(item)
        return found
