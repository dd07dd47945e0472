"""What became of the runs of a synchronization; also what ``toyspec sync --json`` prints."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["same", "sent", "waiting", "ahead", "conflict", "failed"]
"""Same: nothing was to do. Sent: the place has all of the run now. Waiting: less than that, more is sent later.
Ahead: the place has more than the folder. Conflict: the place has another run there. Failed: the fact says why."""

LEFT: frozenset[Outcome] = frozenset(["ahead", "conflict", "failed"])
"""The outcomes after which something is left to do for a person."""


class RunResult(msgspec.Struct, kw_only=True):
    """What became of one run."""

    run: str
    """Path of its directory."""
    address: str
    """Where it is in the place."""
    outcome: Outcome = "same"
    facts: list[str] = []
    """What a person has to know."""
    files: int = 0
    """Number of files that were sent."""
    sent: int = 0
    """Number of bytes that were sent."""
    copied: int = 0
    """Number of bytes that the place copied from its own objects."""
    fragment: int = 0
    """Number of bytes after the last committed line, which stay here."""
    is_ended: bool = False
    """Whether the last record is a run_end."""
    is_live: bool = False
    """Whether a writer has the stream open, where the system tells."""


class SyncReport(msgspec.Struct, kw_only=True):
    """What became of all runs."""

    root: str
    address: str
    runs: list[RunResult]
    passed_over: int = 0
    """Number of objects of the place that are of none of the runs, as far as it was listed; they do not change."""
    example: str = ""
    """The address of the first one."""
    is_rehearsal: bool = False
    """Whether nothing was sent, and the report says what would have been."""

    def count(self, *outcomes: Outcome) -> int:
        """Return the number of runs with one of *outcomes*."""
        return sum(run.outcome in outcomes for run in self.runs)

    @property
    def sent(self) -> int:
        """Number of bytes that were sent."""
        return sum(run.sent for run in self.runs)
