"""How a run is written: what the caller chooses."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - a field has it
from typing import Literal, get_args

from toyspec.core.errors import check_choice
from toyspec.core.writing.append_file import Durability, Options
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock

Exist = Literal["replace", "fail", "resume"]
"""How an existing stream is treated: it moves to ``events.jsonl.prev``, raises FileExistsError, or is resumed."""

OnError = Literal["disable", "raise"]
"""How failures of the system, and invalid records after the run has started, are treated.

With disable, one line on standard error reports it and the program goes on; with raise, the caller gets the error.
"""

Sealing = Literal["never", "at-end"]
"""When the bundle is sealed: never, or after run_end."""

Resuming = Literal["by-call", "by-itself"]
"""Who writes the run_resume of a resumed stream: the caller before all else, or the stream before the first record."""


Fit = Literal["exact", "as-given", "made-to-fit"]
"""What becomes of the values of a record: nothing; numbers of any library are plain; fields get what they take, too."""


class Settings(Options, frozen=True, kw_only=True):
    """How a run is written."""

    exist: Exist = "replace"
    on_error: OnError = "disable"
    resuming: Resuming = "by-call"
    subsample: int = 1
    """Minimum distance between two written steps of a phase; the last step is always written."""
    seal: Sealing = "never"
    clock: Clock = SYSTEM_CLOCK
    unredacted: Sequence[str] = ()
    """Settings of the run that are written unchanged, though their names sound like secrets."""
    values: Literal["adapted", "exact"] = "adapted"
    """Whether what the program logs is adapted to the schema, and NaN named, or written exactly as it is given."""
    wait_seconds: float | None = None
    """How long another writer of the stream is waited for, after which StreamRefusedError is raised; None to treat its
    lock as any other failure."""

    @property
    def fit(self) -> Fit:
        """What becomes of the values of a record."""
        if self.values == "exact":
            return "exact"
        return "made-to-fit" if self.on_error == "disable" else "as-given"

    def __post_init__(self) -> None:
        for name, allowed in (("exist", Exist), ("on_error", OnError), ("durability", Durability), ("seal", Sealing)):
            check_choice(name, getattr(self, name), get_args(allowed))
        if not self.sync_seconds >= 0:
            raise ValueError(f"sync_seconds is {self.sync_seconds}; it must not be negative")
        if self.wait_seconds is not None and not self.wait_seconds >= 0:
            raise ValueError(f"wait_seconds is {self.wait_seconds}; it must be a number of seconds ≥ 0")
        if type(self.subsample) is not int or self.subsample < 1:
            raise ValueError(f"subsample is {self.subsample!r}; pass an integer N ≥ 1 to write every N-th step")
