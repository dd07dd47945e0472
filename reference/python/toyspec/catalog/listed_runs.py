"""What a list shows of each run, from some columns of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from toyspec.runs.summary import RunState


class ListedRun(NamedTuple):
    """What the usual columns of a list need of a run: the attributes that RunSummary has too."""

    path: str
    directory: str
    name: str
    state: RunState
    sealed: bool
    reason: str | None
    last_step: int | None
    final_loss: float | None
    seconds: float | None
    started_at: str | None
    says_final_loss: bool
