"""A stream without a profile: it has one finding, and nothing else in it is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from toyspec.checker.collecting import Location
from toyspec.format.known_formats import look_of
from toyspec.generated import rules
from toyspec.generated.looks import HEAD_BYTES

if TYPE_CHECKING:
    from toyspec.checker.collecting import Collector
    from toyspec.format.known_formats import Look


class Foreign(msgspec.Struct, frozen=True):
    """What is known of a stream without a profile."""

    place: Location
    """The first byte of its first readable record, else of its first unreadable line."""
    keys: list[str] | None
    """The keys of that record; None if there is none."""

    def report(self, head: bytes, size: int, collector: Collector) -> Look:
        """Replace all findings by the one about the format of the stream; return what it looks like.

        The stream has *size* bytes and begins with *head*.
        """
        look = look_of(head, self.keys, is_all=size <= HEAD_BYTES)
        collector.drop_findings()
        collector.add(rules.UNKNOWN_FORMAT, self.place, look.fact, advice=look.advice)
        return look
