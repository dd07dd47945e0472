"""The report on one reading as data: what was read, what was not, and why."""

from __future__ import annotations

from typing import Any

import msgspec

from toyspec.core.findings import DialectUse, Profile, State
from toyspec.core.generated.limits import EXCERPT_BYTES

HEAD_BYTES = EXCERPT_BYTES
"""Number of bytes that are kept of a line that is too long."""


class Fragment(msgspec.Struct, frozen=True):
    """The bytes after the last LF: a record that was never committed."""

    number: int
    """Number of the line that the fragment begins, counted from 1."""
    offset: int
    """Byte offset of its first byte, counted from 0 at the start of the stream."""
    length: int
    """Number of bytes; at least 1."""
    all_nul: bool
    """True when every byte is NUL, as a power loss leaves them."""
    head: bytes
    """Its first bytes, at most ``HEAD_BYTES``."""


class Gap(msgspec.Struct, frozen=True):
    """Bytes of a stream that are not records."""

    line: int
    """Number of its first line, counted from 1."""
    offset: int
    """Byte offset of its first byte, counted from 0 at the start of the stream."""
    length: int
    """Number of bytes, the LF of an unreadable line included."""
    reason: str
    """Name of the rule that the line breaks, or ``stopped`` for what was left unread."""
    message: str
    """The fact, with the value found; log text in it is escaped and cut."""


class ReadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on one reading. Always: committed_bytes + fragment_bytes + gap_bytes = size."""

    state: State
    profile: Profile | None
    """The profile of the stream; None for a file of another format."""
    records: int
    """Number of records that were read, superseded ones included."""
    committed_bytes: int
    """Bytes in readable and blank lines, their LFs included."""
    fragment: Fragment | None
    """The bytes after the last LF; None when there are none, or when reading stopped before them."""
    uncommitted: dict[str, Any] | None
    """The object in the fragment, when only its LF is missing; None otherwise. It was never committed."""
    gaps: list[Gap]
    """The first ``limits.MAX_FINDINGS_PER_RULE`` unreadable lines, in order.

    What was left unread comes last, with the reason ``stopped``.
    """
    unlisted_gaps: int
    """Number of further gaps, which are counted only."""
    gap_bytes: int
    """Bytes in all gaps, listed or not."""
    size: int
    """Size of the stream in bytes; of a pipe, the number of bytes received."""
    dialect: DialectUse | None = None
    """How the log of another program was read; None for a stream of a profile, and for an unknown format."""

    @property
    def fragment_bytes(self) -> int:
        """Number of bytes after the last LF."""
        return 0 if self.fragment is None else self.fragment.length
