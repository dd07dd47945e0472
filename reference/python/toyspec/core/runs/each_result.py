"""Does the same work for many streams: one after the other, or for remote ones several at once."""

from __future__ import annotations

import contextlib
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from toyspec.core.places.addresses import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toyspec.core.runs.walking import Stream

Result = TypeVar("Result")

# A request takes much longer than the work on its answer.
_REQUESTS = 16


def each_result(
    streams: Iterable[Stream], work: Callable[[Stream], Result]
) -> Iterator[tuple[Stream, Callable[[], Result]]]:
    """Yield each of *streams*, in order, and a function that returns the result of *work* on it, or raises as that.

    From the first remote one on, several threads do the work, ahead of what is asked for.
    """
    others = iter(streams)
    for stream in others:
        if is_address(stream.path):
            yield from _at_once(chain([stream], others), work)
        else:
            yield stream, partial(work, stream)


def _at_once(
    streams: Iterable[Stream], work: Callable[[Stream], Result]
) -> Iterator[tuple[Stream, Callable[[], Result]]]:
    # Imported with the first address: start-up time counts.
    from concurrent.futures import Future

    from toyspec.core.workers.running import Threads, Work, results_of

    def outcome(stream: Stream) -> Callable[[], Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(work(stream))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result raises it
            future.set_exception(error)
        return future.result

    each: Work[Stream, Callable[[], Result]] = Work(lambda batch: [*map(outcome, batch)], lambda _: 0, _never)
    with contextlib.closing(results_of(streams, each, Threads(_REQUESTS))) as results:
        yield from results


def _never(stream: Stream, reason: str) -> Callable[[], Result]:
    raise AssertionError(f"{stream.path}: {reason}")
