"""Does the same work for many streams: one after the other, or for remote ones several at once."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from toyspec.places.addresses import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from toyspec.runs.discovery import Stream

Result = TypeVar("Result")

# A request takes much longer than the work on its answer.
_REQUESTS = 16
_PENDING = 4 * _REQUESTS


def each_result(
    streams: Iterable[Stream], work: Callable[[Stream], Result]
) -> Iterator[tuple[Stream, Callable[[], Result]]]:
    """Yield each of *streams* and a function that returns the result of *work* on it, or raises as that.

    Files come in order, and so do remote streams, which may come later than files.
    """
    held: deque[tuple[Stream, Future[Result]]] = deque()
    pool = None
    try:
        for stream in streams:
            if not is_address(stream.path):
                yield stream, partial(work, stream)
                continue
            if pool is None:
                # Imported with the first address: start-up time counts.
                from concurrent.futures import ThreadPoolExecutor

                pool = ThreadPoolExecutor(_REQUESTS)
            held.append((stream, pool.submit(work, stream)))
            if len(held) >= _PENDING:
                first, future = held.popleft()
                yield first, future.result
        for first, future in held:
            yield first, future.result
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
