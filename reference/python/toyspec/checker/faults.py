"""What the record layer found in one record, before it has a place in the stream."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from toyspec.generated import rules


class RecordFault(msgspec.Struct, frozen=True):
    """One fault in a record."""

    rule: str
    pointer: str
    message: str


class UnknownKey(msgspec.Struct, frozen=True):
    """A key that the schema does not declare."""

    rule: ClassVar[str] = rules.UNKNOWN_KEY

    path: str
    """The key with those of the objects around it, array indexes left out."""
    pointer: str
    suggestion: str | None
