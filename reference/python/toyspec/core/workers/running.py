"""Gives batches to a crew: the largest first, lost ones again, and a lost item alone in the end.

A crew does the work: it gives back results, or that a batch was lost. Crews are processes, threads or a cluster.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator


Call = Callable[[list[Any]], list[Any]]
"""Works on a batch: one result for each item, in order. It and the items can be pickled."""


class Finished(NamedTuple):
    """A batch that left a crew."""

    key: int
    results: list[Any]
    lost: str | None = None
    """What happened to the worker; None where there are results."""
    is_blameless: bool = False
    """True if the worker was lost for a reason outside it, such as the loss of its machine."""


class CrewEndedError(Exception):
    """Another thread has ended the workers."""


class Crew(Protocol):
    """Workers that have started."""

    @property
    def size(self) -> int:
        """Number of batches to give them at once."""

    def submit(self, key: int, items: list[Any]) -> None:
        """Let a worker do the batch *items*."""

    def finished(self) -> list[Finished]:
        """Wait for at least one batch and return those that are done; an exception of the work is raised."""

    def close(self) -> None:
        """End the workers, without waiting for batches that nothing waits for."""


class Workers(Protocol):
    """What can do the work."""

    def start(self, call: Call) -> Crew:
        """Return a crew that does *call*. Raise WorkersError."""


def passable(error: Exception) -> Exception:
    """Return *error*, or one with its words if it does not survive being passed."""
    try:
        # A copy is made by the same calls as an exception on the other side of a pipe.
        copy.deepcopy(error)
    except Exception:  # noqa: BLE001 - whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


Item = TypeVar("Item")
Result = TypeVar("Result")

# To pass a stream to a process takes as long as to check a hundred lines, so small ones go together.
BATCH_BYTES = 1 << 20
BATCH_ITEMS = 64
# Enough for workers to go on beside a large stream, few enough to keep what waits for its turn small.
_WINDOW_PER_WORKER = 16
# A batch is tried twice before it is divided; what is lost with its machine is tried again more often.
_TRIES = 2
_MOST_TRIES = 20


class Work(NamedTuple, Generic[Item, Result]):
    """What is done with items, and what is known of them."""

    call: Call
    weight: Callable[[Item], int]
    """Returns the size of an item in bytes; 0 where it is not known, which puts it into a batch of its own."""
    lost: Callable[[Item, str], Result]
    """Returns the result for an item whose worker ended, for the reason given, each time that it was tried."""


class _Part(NamedTuple):
    """A batch, or a piece of one."""

    batch: int
    start: int
    items: list[Any]
    tries: int = 0
    rounds: int = 0


class _Batch(Generic[Item, Result]):
    def __init__(self, number: int, items: list[Item]) -> None:
        self.number = number
        self.items = items
        self.results: list[Result | None] = [None] * len(items)
        self.missing = len(items)


def results_of(
    items: Iterable[Item],
    work: Work[Item, Result],
    workers: Workers,
    *,
    order: Literal["given", "any"] = "given",
) -> Generator[tuple[Item, Result]]:
    """Yield each of *items* with its result; in the *order* that is given, or as the work ends.

    A batch whose worker ends is done again; if that happens twice, it is divided until the items that end workers are
    known: *work* gives their results. Closing the generator ends the workers.
    """
    crew = workers.start(work.call)
    run: _Run[Item, Result] = _Run(crew, work, batches(items, work.weight), order)
    try:
        yield from run.results()
    finally:
        crew.close()


class _Run(Generic[Item, Result]):
    """One pass over all items."""

    def __init__(
        self, crew: Crew, work: Work[Item, Result], source: Iterator[list[Item]], order: Literal["given", "any"]
    ) -> None:
        self._crew = crew
        self._work = work
        self._source = source
        self._order = order
        self._open: dict[int, _Batch[Item, Result]] = {}
        self._waiting: list[tuple[int, int, int, _Part]] = []
        self._given: dict[int, _Part] = {}
        self._keys = itertools.count()
        self._numbers = itertools.count()
        self._yielded = 0

    def results(self) -> Iterator[tuple[Item, Result]]:
        while True:
            self._open_batches()
            self._submit()
            before = self._yielded
            while (batch := self._done()) is not None:
                del self._open[batch.number]
                self._yielded += 1
                yield from zip(batch.items, batch.results, strict=True)
            if self._given:
                for finished in self._crew.finished():
                    self._settle(self._given.pop(finished.key), finished)
            elif self._yielded == before:
                return

    def _open_batches(self) -> None:
        """Open the batches whose turn it is, so few that what is done and waits for its turn stays small."""
        wanted = self._crew.size * _WINDOW_PER_WORKER - len(self._open)
        for items in itertools.islice(self._source, max(0, wanted)):
            batch = _Batch[Item, Result](next(self._numbers), items)
            self._open[batch.number] = batch
            self._put(_Part(batch.number, 0, items))

    def _put(self, part: _Part) -> None:
        size = sum(map(self._work.weight, part.items))
        heapq.heappush(self._waiting, (-size, part.batch, part.start, part))

    def _submit(self) -> None:
        while self._waiting and len(self._given) < self._crew.size:
            part = heapq.heappop(self._waiting)[-1]
            key = next(self._keys)
            self._given[key] = part
            self._crew.submit(key, part.items)

    def _settle(self, part: _Part, finished: Finished) -> None:
        batch = self._open[part.batch]
        if finished.lost is None:
            batch.results[part.start : part.start + len(part.items)] = finished.results
            batch.missing -= len(part.items)
            return
        tries = part.tries + (not finished.is_blameless)
        again = part._replace(tries=tries, rounds=part.rounds + 1)
        if tries < _TRIES and again.rounds < _MOST_TRIES:
            self._put(again)
        elif len(part.items) == 1:
            batch.results[part.start] = self._work.lost(part.items[0], finished.lost)
            batch.missing -= 1
        else:
            middle = len(part.items) // 2
            self._put(_Part(part.batch, part.start, part.items[:middle], tries=_TRIES - 1))
            self._put(_Part(part.batch, part.start + middle, part.items[middle:], tries=_TRIES - 1))

    def _done(self) -> _Batch[Item, Result] | None:
        """Return a batch that has all its results and whose turn it is."""
        numbers = [self._yielded] if self._order == "given" else self._open
        found = (self._open[number] for number in numbers if number in self._open)
        return next((batch for batch in found if not batch.missing), None)


def batches(items: Iterable[Item], weight: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield *items* in pieces of about equal size; one whose size is not known, such as a pipe, is alone."""
    batch: list[Item] = []
    size = 0
    for item in items:
        more = weight(item)
        if batch and not more:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more or BATCH_BYTES
        if size >= BATCH_BYTES or len(batch) >= BATCH_ITEMS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Threads(NamedTuple):
    """A number of threads of this process."""

    number: int

    def start(self, call: Call) -> ThreadCrew:
        """See Workers."""
        return ThreadCrew(self.number, call)


class ThreadCrew:
    """See Crew. No thread is lost without its process."""

    def __init__(self, number: int, call: Call) -> None:
        self.size = number
        self._pool = ThreadPoolExecutor(number)
        self._call = call
        self._given: dict[Future[list[Any]], int] = {}

    def submit(self, key: int, items: list[Any]) -> None:
        """See Crew."""
        self._given[self._pool.submit(self._call, items)] = key

    def finished(self) -> list[Finished]:
        """See Crew."""
        done = wait(self._given, return_when=FIRST_COMPLETED).done
        return [Finished(self._given.pop(future), future.result()) for future in done]

    def close(self) -> None:
        """See Crew. It waits for the batches that have begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
