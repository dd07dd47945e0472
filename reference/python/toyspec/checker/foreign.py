"""A stream that follows no profile: it has one finding, and nothing else about it is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from toyspec.checker.collecting import Place
from toyspec.format.looks import look_of
from toyspec.generated import rules
from toyspec.generated.looks import HEAD_BYTES

if TYPE_CHECKING:
    from toyspec.checker.collecting import Collector
    from toyspec.format.looks import Look


class Foreign(msgspec.Struct, frozen=True):
    """What is known of a stream without profile."""

    place: Place
    """The first byte of its first readable record, of its first unreadable line where it has none."""
    keys: list[str] | None
    """The keys of that record; None where it has none."""

    def report(self, head: bytes, size: int, collector: Collector) -> Look:
        """Make the one finding of a stream of *size* bytes with the first bytes *head*; return what it looks like.

        All other findings are dropped.
        """
        look = look_of(head, self.keys, is_all=size <= HEAD_BYTES)
        collector.drop_findings()
        collector.add(rules.UNKNOWN_FORMAT, self.place, look.fact, advice=look.advice)
        return look
