"""Workers that are threads: they wait for stores, whose client does not survive a fork."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.workers.crews import Finished

if TYPE_CHECKING:
    from toyspec.core.workers.crews import Call


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
