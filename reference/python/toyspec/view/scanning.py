"""Scans and checks streams, one after another or in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.errors import StreamError
from toyspec.findings import FileReport
from toyspec.reading.stream_files import parts_status
from toyspec.runs.ends import summarize_ends
from toyspec.runs.rows import row_of, unreadable_row
from toyspec.view.curve_store import CurveStore, Identity, pack
from toyspec.view.run_files import RunFile, identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toyspec.reading.log_detection import DialectChoice

# Starting a process costs as much as scanning this many bytes.
_ALONE_BYTES = 16 << 20
_BATCH_BYTES = 4 << 20
_BATCH_STREAMS = 64
_MOST_WORKERS = 8


class Work(NamedTuple):
    """One stream to scan."""

    path: str
    run: str
    """The id of the run."""
    size: int


class Scanned(NamedTuple):
    """What became of a stream."""

    path: str
    identity: Identity
    row: dict[str, Any] | None
    """None for a file that is not a run."""


def scan_stream(work: Work, store: CurveStore, dialect: DialectChoice) -> Scanned:
    """Scan a stream, keep its curves in *store* and return its row."""
    try:
        file = RunFile(work.path, dialect)
        try:
            file.read()
            identity = file.identity()
            if not file.is_known:
                return Scanned(work.path, identity, None)
            row = row_of(file.scan.summary, work.run, metrics_left_out=file.scan.metrics_left_out)
            store.save(work.path, *pack(file.scan, file, row))
            return Scanned(work.path, identity, row)
        finally:
            file.close()
    except (StreamError, OSError) as error:
        fact = error.fact if isinstance(error, StreamError) else str(error.strerror or error)
        return Scanned(work.path, identity_at(work.path), unreadable_row(work.run, fact, work.size))


def quick_row(work: Work, dialect: DialectChoice) -> dict[str, Any]:
    """Return the row of a stream by its first and last lines: what the table shows until the stream is scanned.

    Of the metrics it has only the last values.
    """
    try:
        row = row_of(summarize_ends(work.path, dialect=dialect, checked_bytes=0), work.run)
        unknown = {"best": None, "count": 0, "nan": 0}
        return row | {"metrics": {name: facts | unknown for name, facts in row["metrics"].items()}}
    except StreamError as error:
        return unreadable_row(work.run, error.fact, work.size)


def count_findings(path: str, dialect: DialectChoice) -> dict[str, int] | None:
    """Return the number of findings of each severity in the stream at *path*; None if it cannot be checked."""
    from toyspec.checker import CheckOptions, iter_reports

    options = CheckOptions(dialect=dialect.name, step_key=dialect.step, dialects=dialect.own)
    report = next(iter(iter_reports([path], options=options)), None)
    if not isinstance(report, FileReport):
        return None
    counts = Counter(finding.severity for finding in report.findings)
    severities = {finding.rule: finding.severity for finding in report.findings}
    for rule, number in report.suppressed.items():
        counts[severities[rule]] += number
    return {"error": counts["error"], "warning": counts["warning"], "info": counts["info"]}


def identity_at(path: str) -> Identity:
    """Return the identity of the file at *path*; zeros without one."""
    try:
        return identity_of(parts_status(path) if os.path.isdir(path) else os.stat(path))
    except OSError:
        return 0, 0, 0, 0


class Workers:
    """Runs scans and checks in the background, in processes where that pays."""

    def __init__(self, directory: str, dialect: DialectChoice) -> None:
        """Keep curves in the cache *directory*."""
        self._directory = directory
        self._dialect = dialect
        self._executor: Executor | None = None
        self._is_closed = False

    def scan(self, works: Sequence[Work], done: Callable[[Sequence[Scanned]], None]) -> dict[str, Future[Any]]:
        """Begin to scan *works* and return the future of each path; *done* gets what was scanned, batch by batch."""
        futures: dict[str, Future[Any]] = {}
        for batch in () if self._is_closed else _batches(works):
            future = self._pool(works).submit(_scan_batch, batch, self._directory, self._dialect)
            future.add_done_callback(lambda task: done(_result(task)))
            futures |= {work.path: future for work in batch}
        return futures

    def check(self, works: Sequence[Work], done: Callable[[Sequence[tuple[str, Any]]], None]) -> list[Future[Any]]:
        """Begin to count the findings of *works*; *done* gets paths and counts, batch by batch."""
        futures = []
        for batch in () if self._is_closed else _batches(works):
            future = self._pool(works).submit(_check_batch, batch, self._dialect)
            future.add_done_callback(lambda task: done(_result(task)))
            futures.append(future)
        return futures

    def _pool(self, works: Sequence[Work]) -> Executor:
        if self._executor is None:
            cores = min(os.cpu_count() or 1, _MOST_WORKERS)
            if cores > 1 and sum(work.size for work in works) > _ALONE_BYTES:
                # A process with threads must not be copied.
                method = "spawn" if threading.active_count() > 1 or os.name == "nt" else "fork"
                context = multiprocessing.get_context(method)
                self._executor = ProcessPoolExecutor(cores, mp_context=context, initializer=_leave_interrupts)
            else:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="toyspec-scan")
        return self._executor

    def rest(self) -> None:
        """End the worker processes, whose memory is then free; later work starts new ones."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End all work, for good."""
        self._is_closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts() -> None:
    """Let the server alone decide what Ctrl-C does."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _scan_batch(batch: list[Work], directory: str, dialect: DialectChoice) -> list[Scanned]:
    store = CurveStore(directory)
    return [scan_stream(work, store, dialect) for work in batch]


def _check_batch(batch: list[Work], dialect: DialectChoice) -> list[tuple[str, Any]]:
    return [(work.path, count_findings(work.path, dialect)) for work in batch]


def _result(task: Future[Any]) -> Any:
    """Return the result of a finished *task*; an empty one if it was cancelled or its process was killed."""
    return [] if task.cancelled() or task.exception() is not None else task.result()


def _batches(works: Sequence[Work]) -> Iterator[list[Work]]:
    batch: list[Work] = []
    size = 0
    for work in works:
        batch.append(work)
        size += work.size
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_STREAMS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
