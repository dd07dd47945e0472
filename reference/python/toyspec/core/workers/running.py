"""Gives batches to a crew, lost ones again, and a lost item alone in the end.

A crew does the work: it gives back results, or that a batch was lost. Crews are processes, threads or a cluster.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator


Call = Callable[[list[Any]], list[Any]]
"""Works on a batch: one result for each item, in order. It and the items can be pickled."""


class WorkLoss(NamedTuple):
    """Why a batch has no results."""

    reason: str
    is_blameless: bool = False
    """True if the worker was lost for a reason outside it, such as the loss of its machine."""


class CrewEndedError(Exception):
    """Another thread has ended the workers."""


class Crew(Protocol):
    """Workers that have started."""

    @property
    def size(self) -> int:
        """Number of batches to give them at once."""

    def submit(self, items: list[Any]) -> Future[list[Any]]:
        """Let a worker do the batch *items*."""

    def loss(self, error: BaseException) -> WorkLoss | None:
        """Return what happened to a worker whose batch ended with *error*; None for an error of the work itself."""

    def close(self) -> None:
        """End the workers, without waiting for batches that nothing waits for."""


class Workers(Protocol):
    """What can do the work."""

    def start(self, call: Call) -> Crew:
        """Return a crew that does *call*. Raise WorkersError."""


def done(call: Call, items: list[Any]) -> list[Any]:
    """Return the results of a batch, in a worker; what cannot be passed on of an exception is its class."""
    try:
        return call(items)
    except Exception as error:
        try:
            # A copy is made by the same calls as an exception on the other side of a pipe.
            copy.deepcopy(error)
        except Exception:  # noqa: BLE001 - whatever its class does
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise


Item = TypeVar("Item")
Result = TypeVar("Result")

# To pass a stream to a process takes as long as to check a hundred lines, so small ones go together.
BATCH_BYTES = 1 << 20
BATCH_ITEMS = 64
# Enough for workers to go on beside a large stream, few enough to keep what waits for its turn small.
_WINDOW_PER_WORKER = 16
# What is lost with its machine is tried again more often.
_MOST_TRIES = 20


class Work(NamedTuple, Generic[Item, Result]):
    """What is done with items, and what is known of them."""

    call: Call
    weight: Callable[[Item], int]
    """Returns the size of an item in bytes; 0 where it is not known, which puts it into a batch of its own."""
    lost: Callable[[Item, str], Result]
    """Returns the result for an item whose worker ended, for the reason given, each time that it was tried."""


class _Part(NamedTuple):
    """A batch, or one item of it."""

    batch: int
    start: int
    items: list[Any]
    tries: int = 0
    is_suspect: bool = False
    """Whether a worker was lost with it: then nothing else is done meanwhile, so that it alone can be to blame."""


class _Batch(Generic[Item, Result]):
    def __init__(self, items: list[Item]) -> None:
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

    The items of a batch whose worker ends are done again, each alone; *work* gives the result of one that ends its
    worker then. Closing the generator ends the workers.
    """
    crew = workers.start(work.call)
    run: _Run[Item, Result] = _Run(crew, work, batches(items, work.weight))
    try:
        yield from run.results(order)
    finally:
        crew.close()


class _Run(Generic[Item, Result]):
    """One pass over all items."""

    def __init__(self, crew: Crew, work: Work[Item, Result], source: Iterator[list[Item]]) -> None:
        self._crew = crew
        self._work = work
        self._source = enumerate(source)
        self._open: dict[int, _Batch[Item, Result]] = {}
        self._waiting: deque[_Part] = deque()
        self._suspects: deque[_Part] = deque()
        self._given: dict[Future[list[Any]], _Part] = {}

    def results(self, order: Literal["given", "any"]) -> Iterator[tuple[Item, Result]]:
        while True:
            self._submit()
            if not self._given:
                return
            done = wait(self._given, return_when=FIRST_COMPLETED).done
            for part, future in [(self._given.pop(future), future) for future in done]:
                self._settle(part, future)
            for number in list(self._open):
                if not self._open[number].missing:
                    batch = self._open.pop(number)
                    yield from zip(batch.items, batch.results, strict=True)
                elif order == "given":
                    break

    def _submit(self) -> None:
        """Give the workers as much as they can do at once, and one suspect alone."""
        while len(self._open) < _WINDOW_PER_WORKER * self._crew.size and (more := next(self._source, None)):
            number, items = more
            self._open[number] = _Batch(items)
            self._waiting.append(_Part(number, 0, items))
        parts = self._suspects or self._waiting
        most = 1 if self._suspects or any(part.is_suspect for part in self._given.values()) else self._crew.size
        while parts and len(self._given) < most:
            part = parts.popleft()
            self._given[self._crew.submit(part.items)] = part

    def _settle(self, part: _Part, future: Future[list[Any]]) -> None:
        error = future.exception()
        loss = None if error is None else self._crew.loss(error)
        if loss is None:
            results: list[Any] = future.result()
        elif loss.is_blameless and part.tries < _MOST_TRIES:
            self._waiting.append(part._replace(tries=part.tries + 1))
            return
        elif not part.is_suspect:
            for at, item in enumerate(part.items, part.start):
                self._suspects.append(part._replace(start=at, items=[item], is_suspect=True))
            return
        else:
            results = [self._work.lost(part.items[0], loss.reason)]
        batch = self._open[part.batch]
        batch.results[part.start : part.start + len(results)] = results
        batch.missing -= len(results)


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

    def submit(self, items: list[Any]) -> Future[list[Any]]:
        """See Crew."""
        return self._pool.submit(self._call, items)

    def loss(self, error: BaseException) -> WorkLoss | None:
        """Return None."""
        del error
        return None

    def close(self) -> None:
        """See Crew. It waits for the batches that have begun."""
        self._pool.shutdown(cancel_futures=True)
