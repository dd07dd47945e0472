"""Findings of the record layer in one record, before they have a place in the stream."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from toyspec.generated import rules


class RecordFinding(msgspec.Struct, frozen=True):
    """One finding in a record."""

    rule: str
    pointer: str
    message: str


class UnknownKey(msgspec.Struct, frozen=True):
    """A key that the schema does not declare."""

    rule: ClassVar[str] = rules.UNKNOWN_KEY

    path: str
    """The key, after the keys of the objects around it; array indexes are left out."""
    pointer: str
    suggestion: str | None
