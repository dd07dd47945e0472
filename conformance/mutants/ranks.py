"""Mutants of the streams of ranks in a bundle: see spec/ranks.md and spec/views.md."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.summarizing import Members, Summarizing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.oracle.reading import Reading, Stream

Message = dict[str, Any]
_ANY_RANK = re.compile(r"events\.rank-([0-9]+)\.jsonl")


class OrdersRanksByName(Oracle):
    """Lists rank 10 before rank 2."""

    def ranks(self, directory: str) -> list[int]:
        """Return the ranks in the order of their names."""
        return sorted(super().ranks(directory), key=str)


class TakesAnyNameForARank(Oracle):
    """Takes side files, rank 0 and numbers with leading zeros for streams of ranks."""

    def is_rank(self, name: str) -> re.Match[str] | None:
        """Return a match of the beginning of a name."""
        return _ANY_RANK.match(name)


class TakesDirectoriesForRanks(Oracle):
    """Takes a directory for the stream of a rank."""

    def ranks(self, directory: str) -> list[int]:
        """Return the ranks of whatever has the name of one."""
        return sorted(int(found[1]) for name in os.listdir(directory) if (found := self.is_rank(name)))


class ListsEveryRank(Oracle):
    """Lists rank 0 as another rank."""

    def ranks(self, directory: str) -> list[int]:
        """Return the ranks, the first included."""
        return [0, *super().ranks(directory)]


class CallsARunTornForARank(Oracle):
    """Takes the state of the last rank for that of the run."""

    def read(self, request: Message) -> Message:
        """Answer with the state of the last rank."""
        answer = super().read(request)
        if not answer.get("ranks") or "name" in request:
            return answer
        last = super().read({**request, "name": f"events.rank-{answer['ranks'][-1]}.jsonl"})
        return answer | {"state": last["state"]}


class DetectsTheProfileOfRanks(Oracle):
    """Gives the views of a rank only if its stream shows that it is toy/v1."""

    def others(self, request: Message, reading: Reading, ranks: list[int]) -> dict[int, Stream]:
        """Return the streams that show their profile."""
        detected = Oracle().others(request, reading, ranks)
        named = {rank: {**request, "name": f"events.rank-{rank}.jsonl"} for rank in detected}
        return {rank: stream for rank, each in named.items() if (stream := self.opened(each, reading)[0]).profile}


class LeavesOutTheFirstRank(Oracle):
    """Gives views of the other ranks only."""

    class summarizing_type(Summarizing):
        def ranks(self, streams: Mapping[int, Stream]) -> Members:
            return super().ranks({rank: stream for rank, stream in streams.items() if rank})


class BlamesTheLowestRank(Oracle):
    """Names the first of several ranks that came equally far."""

    class summarizing_type(Summarizing):
        def first_stopped(self, rows: Mapping[int, Members]) -> int | None:
            return min(rows, key=lambda rank: self.came_to(rows[rank]))


class OverlooksEnds(Oracle):
    """Names no rank among those that came equally far, whichever has an end."""

    class summarizing_type(Summarizing):
        def first_stopped(self, rows: Mapping[int, Members]) -> int | None:
            return super().first_stopped({rank: {**row, "state": "torn"} for rank, row in rows.items()})


class TakesNoStepForStepZero(Oracle):
    """Takes a rank without a step for one that came to step 0."""

    class summarizing_type(Summarizing):
        def came_to(self, row: Members) -> int:
            return max(0, super().came_to(row))


def _mutant(make: type[Oracle], proves: str, reason: str, role: str = "summarizer") -> Mutant:
    return Mutant(make=make, role=role, proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(OrdersRanksByName, "ranks/found", r"ranks is \[1, 10, ", "reader"),
    _mutant(TakesAnyNameForARank, "ranks/found", r"ranks is .*, expected \[\]", "reader"),
    _mutant(TakesDirectoriesForRanks, "ranks/found", r"ranks is \[3\], expected \[\]", "reader"),
    _mutant(ListsEveryRank, "ranks/found", r"ranks is \[0", "reader"),
    _mutant(CallsARunTornForARank, "ranks/state", "state is torn, expected complete", "reader"),
    _mutant(DetectsTheProfileOfRanks, "views/toy-ranks", "/ranks"),
    _mutant(LeavesOutTheFirstRank, "views/toy-ranks", "/ranks"),
    _mutant(BlamesTheLowestRank, "views/toy-first-stopped", "first_stopped"),
    _mutant(OverlooksEnds, "views/toy-first-stopped", "first_stopped"),
    _mutant(TakesNoStepForStepZero, "views/toy-first-stopped", "first_stopped"),
)
