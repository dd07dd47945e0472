"""What a list shows of the runs of a catalog, a column at a time: that takes less than a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from toyspec.runs.summary import RunState


class RunColumns(NamedTuple):
    """The usual columns of a list; all have one length and one order."""

    path: list[str]
    """The directory of each run."""
    name: list[str | None]
    """The name of a run that is a root of the catalog, whose path from there is empty; None of others."""
    state: list[RunState]
    sealed: list[bool]
    reason: list[str | None]
    last_step: list[int | None]
    final_loss: list[float | None]
    seconds: list[float | None]
    started_at: list[str | None]
    as_of: list[int | None]
    """See RunSummary."""
    says_final_loss: list[bool]
    """Whether the run says its final loss, also where that was not finite."""
    more: dict[str, list[Any]] = {}  # noqa: RUF012 - never changed
    """Other columns by name."""
