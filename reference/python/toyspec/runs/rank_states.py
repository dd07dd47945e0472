"""The states of the logs of the other ranks of a run: its own state is that of rank 0. See spec/ranks.md."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from toyspec.errors import StreamError
from toyspec.format.run_files import ranks_beside
from toyspec.runs.ends import summarize_ends
from toyspec.runs.run_facts import RankState, unended, warnings_of
from toyspec.system_calls import is_locked

if TYPE_CHECKING:
    from toyspec.runs.summary import RunState, RunSummary


def states_of_other_ranks(stream: str) -> list[RankState]:
    """Return the states of the logs of ranks from 1 on, of the run with *stream*.

    A log that cannot be read is damaged, and of a long one only the ends are read.
    """
    return [RankState(rank, _state_at(path)) for rank, path in ranks_beside(stream).items()]


def _state_at(path: str) -> RunState:
    try:
        status = os.stat(path)
    except OSError:
        return "damaged"
    # Of what is written, nothing is read.
    if is_locked(path):
        return "running"
    return _known_state(path, status.st_ino, status.st_size, status.st_mtime_ns)


# A run that is written is listed again and again, and the logs of its other ranks change seldom after their end.
@lru_cache(maxsize=1 << 14)
def _known_state(path: str, *_: int) -> RunState:
    try:
        return summarize_ends(path).extent.state
    except StreamError:
        return "damaged"


def warnings_in(run: RunSummary) -> list[str]:
    """Return in words why *run* is not as well as its state says: see ``warnings_of``."""
    return warnings_of(unended_in(run), is_loss_not_finite=run.facts.is_final_loss_not_finite)


def unended_in(run: RunSummary) -> list[RankState]:
    """Return the other ranks of the latest attempt of *run* whose log is torn or damaged."""
    found = unended(states_of_other_ranks(run.path), None)
    # Of a long run, its size is searched for.
    return unended(found, run.world_size) if found else []
