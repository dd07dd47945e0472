"""The states of the logs of the other ranks of a run: its own state is that of rank 0. See spec/ranks.md."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from toyspec.core.errors import StreamError
from toyspec.core.places.addresses import is_address, path_in
from toyspec.core.reading.reader import read
from toyspec.core.reading.run_files import rank_file, ranks_beside
from toyspec.core.runs.run_facts import RankState
from toyspec.core.runs.stream_ends import ends_at
from toyspec.core.runs.walking import ranks_in
from toyspec.core.system_calls import is_locked

if TYPE_CHECKING:
    from toyspec.core.generated.runs import RunState


def states_of_other_ranks(stream: str, identity: str = "") -> list[RankState]:
    """Return the states of the logs of ranks from 1 on, of the run with *stream*.

    A log that cannot be read is damaged, and of a long one only the ends are read. A store is not listed for them: they
    are those in the *identity* with which a search has found the stream.
    """
    if is_address(stream):
        directory = stream.rpartition("/")[0]
        found = ranks_in(identity).items()
        places = {rank: (path_in(directory, rank_file(rank)), version) for rank, version in found}
        return [
            RankState(rank, _known_state(path, version) if version else _read_state(path))
            for rank, (path, version) in places.items()
        ]
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
def _known_state(path: str, *_: int | str) -> RunState:
    return _read_state(path)


def _read_state(path: str) -> RunState:
    ends, _ = ends_at(path) or (None, 0)
    if ends is not None and ends.profile is not None:
        return ends.state
    try:
        with read(path, mode="salvage") as reading:
            for _ in reading:
                pass
            return reading.report.state
    except StreamError:
        return "damaged"
