"""Checks streams in several processes or threads: small ones in batches, in the order in which they are found."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Literal

from toyspec.findings import FileReport, PathError, Skipped
from toyspec.runs.discovery import STANDARD_INPUT, Found, Stream

Verdict = FileReport | PathError | Skipped
Check = Callable[[Found], Verdict]

Workers = Literal["processes", "threads"]
"""Threads wait for stores, whose client does not survive a fork; processes check files."""

# Passing a stream to a process takes as long as checking a hundred lines, so small ones go together.
_BATCH_BYTES = 1 << 20
_BATCH_STREAMS = 64
# Enough to keep the workers busy, few enough to keep reports in memory small.
_PENDING_PER_JOB = 4


def check_in_parallel(
    found: Iterable[Found], check: Check, jobs: int, *, workers: Workers = "processes"
) -> Generator[tuple[Found, Verdict]]:
    """Yield each of *found* with the result of *check*, in order; *jobs* processes or threads call *check*."""
    pending: deque[tuple[list[Found], Future[list[Verdict]]]] = deque()
    pool: Executor
    if workers == "threads":
        pool = ThreadPoolExecutor(jobs)
    else:
        pool = ProcessPoolExecutor(jobs, initializer=_end_on_interrupt)
    try:
        for batch in batches(found):
            pending.append((batch, _submitted(pool, batch, check)))
            while len(pending) > jobs * _PENDING_PER_JOB or (pending and pending[0][1].done()):
                yield from _results(*pending.popleft())
        while pending:
            yield from _results(*pending.popleft())
    finally:
        # Wait only for the batches that are being checked. Without waiting, the thread of the pool may close its pipe
        # just when the interpreter writes to it at exit, which then prints a traceback: OSError, "Bad file descriptor".
        pool.shutdown(wait=True, cancel_futures=True)


def batches(found: Iterable[Found]) -> Iterator[list[Found]]:
    """Yield *found* in pieces; a stream whose size is not known, such as a pipe, is a piece of its own."""
    batch: list[Found] = []
    size = 0
    for item in found:
        if isinstance(item, Stream) and not item.size:
            if batch:
                yield batch
            yield [item]
            batch, size = [], 0
            continue
        batch.append(item)
        size += item.size if isinstance(item, Stream) else 0
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_STREAMS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _submitted(pool: Executor, batch: list[Found], check: Check) -> Future[list[Verdict]]:
    if batch[0].path == STANDARD_INPUT:  # only this process can read it
        return _ready(_check_batch(batch, check))
    try:
        with _interrupt_held():  # submitting may start a worker
            return pool.submit(_check_batch, batch, check)
    except BrokenProcessPool:
        return _ready(_not_checked(batch))


def _check_batch(batch: list[Found], check: Check) -> list[Verdict]:
    return [check(item) for item in batch]


def _results(batch: list[Found], task: Future[list[Verdict]]) -> Iterator[tuple[Found, Verdict]]:
    try:
        verdicts = task.result()
    except BrokenProcessPool:
        verdicts = _not_checked(batch)
    yield from zip(batch, verdicts, strict=True)


def _not_checked(batch: list[Found]) -> list[Verdict]:
    return [PathError(item.path, "not checked: a worker process was killed; check this path again") for item in batch]


def _ready(verdicts: list[Verdict]) -> Future[list[Verdict]]:
    future: Future[list[Verdict]] = Future()
    future.set_result(verdicts)
    return future


@contextlib.contextmanager
def _interrupt_held() -> Iterator[None]:
    """Delay Ctrl-C, also in a process that is started meanwhile, which would print a traceback."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_on_interrupt() -> None:
    """Let Ctrl-C end a worker at once, without a traceback from each of them."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
