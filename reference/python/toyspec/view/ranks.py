"""What the page of a run shows of its ranks. See PROTOCOL.md of the viewer."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.runs.ranks import ranks_of, ranks_row
from toyspec.view.identities import identity_at

if TYPE_CHECKING:
    from toyspec.view.identities import Identity
    from toyspec.view.viewed_runs import ViewedRun

_MOST_KEPT = 64
# Every stream of the run is read whole: of a run that is written, at most one part in so many of the time.
_SHARE = 20


def shown_ranks(path: str, run: str) -> dict[str, Any] | None:
    """Return what the ranks of the run with the stream at *path* have logged; None where only one has a stream.

    *run* is the id of the run; the stream of another rank has an id below it. Raises StreamError if none can be read.
    """
    return _shown(path, run) if ranks_beside(path) else None


def _shown(path: str, run: str) -> dict[str, Any]:
    found = ranks_row(ranks_of(path))
    for each in found["ranks"]:
        name = os.path.basename(each.pop("path"))
        del each["regions"], each["last_at"]
        each["run"] = f"{run}/{name}" if each["rank"] else run
    found["errors"] = [f"{os.path.basename(each['path'])}: {each['message']}" for each in found["errors"]]
    del found["directory"], found["run_id"]
    return found


class ShownRanks:
    """The last answers about ranks, as JSON. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def find(self, entry: ViewedRun) -> bytes:
        """Return what ``shown_ranks`` does of a run, as of some time ago while it is written; raise StreamError."""
        beside = ranks_beside(entry.path)
        if not beside:
            return msgspec.json.encode(None)
        identities = [identity_at(path) for path in (entry.path, *beside.values())]
        with self._lock:
            kept = self._kept.get(entry.path)
            began = time.monotonic()
            if kept is not None and (kept.identities == identities or began < kept.next_at):
                return kept.data
            data = msgspec.json.encode(_shown(entry.path, entry.run))
            ended = time.monotonic()
            self._kept[entry.path] = _Kept(identities, data, ended + _SHARE * (ended - began))
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return data


class _Kept(NamedTuple):
    identities: list[Identity]
    data: bytes
    next_at: float
    """When it may be made again, on the monotonic clock."""
