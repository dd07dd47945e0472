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

Resuming = Literal["by-call", "by-itself"]
"""Who writes the run_resume of a resumed stream: the caller before all else, or the stream before the first record."""


class Settings(Options, frozen=True, kw_only=True):
    """How a run is written."""

    exist: Exist = "replace"
    on_error: OnError = "disable"
    resuming: Resuming = "by-call"
    clock: Clock = SYSTEM_CLOCK
    unredacted: Sequence[str] = ()
    """Settings of the run that are written unchanged, though their names sound like secrets."""
    wait_seconds: float | None = None
    """How long another writer of the stream is waited for, after which StreamRefusedError is raised; None to treat its
    lock as any other failure."""

    @property
    def is_lenient(self) -> bool:
        """Whether what fields do not take is made to fit, or left out alone, since the caller wants no errors."""
        return self.on_error == "disable"

    def __post_init__(self) -> None:
        for name, allowed in (("exist", Exist), ("on_error", OnError), ("durability", Durability)):
            check_choice(name, getattr(self, name), get_args(allowed))
        if self.wait_seconds is not None and not self.wait_seconds >= 0:
            raise ValueError(f"wait_seconds is {self.wait_seconds}; it must be a number of seconds ≥ 0")
