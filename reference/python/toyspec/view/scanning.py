"""Scans and checks streams, one after another or in worker processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections import Counter
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.distributed.processes import Processes, cores, start_method
from toyspec.distributed.running import Work, results_of
from toyspec.errors import StreamError, UnknownFormatError
from toyspec.findings import FileReport
from toyspec.places.addresses import is_address
from toyspec.runs.ends import summarize_ends
from toyspec.runs.rows import row_of, unreadable_row
from toyspec.view.curve_store import CurveStore, pack
from toyspec.view.identities import identity_at
from toyspec.view.scanned_runs import ScannedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toyspec.reading.log_detection import DialectChoice
    from toyspec.view.identities import Identity

# Starting a process costs as much as scanning this many bytes.
_ALONE_BYTES = 16 << 20
_BATCH_BYTES = 4 << 20
_BATCH_STREAMS = 64
_MOST_WORKERS = 8
# Requests to a store that wait at the same time.
_REMOTE_WORKERS = 8


class ScanWork(NamedTuple):
    """One stream to scan."""

    path: str
    run: str
    """The id of the run."""
    identity: Identity
    """That of the stream when it was found."""

    @property
    def size(self) -> int:
        """Number of bytes of the stream."""
        return self.identity[2]


class Scanned(NamedTuple):
    """What became of a stream."""

    path: str
    identity: Identity
    row: dict[str, Any] | None
    """None for a file that is not a run."""


def scan_stream(work: ScanWork, store: CurveStore, dialect: DialectChoice, threads: int = 1) -> Scanned:
    """Scan a stream, on so many *threads* if it is long, keep its curves in *store* and return its row."""
    try:
        file = ScannedRun(work.path, dialect, threads=threads)
        try:
            file.read()
            identity = file.identity()
            if not file.is_known:
                return Scanned(work.path, identity, None)
            row = row_of(file.scan.summary, work.run)
            store.save(work.path, *pack(file.scan, file, row))
            return Scanned(work.path, identity, row)
        finally:
            file.close()
    except (StreamError, OSError) as error:
        fact = error.fact if isinstance(error, StreamError) else str(error.strerror or error)
        return Scanned(work.path, identity_at(work.path), unreadable_row(work.run, fact, work.size))


def quick_row(work: ScanWork, dialect: DialectChoice) -> dict[str, Any]:
    """Return the row of a stream by its first and last lines: what the table shows until the stream is scanned.

    Of the metrics it has only the last values.
    """
    try:
        return _row_of_ends(work, dialect)
    except StreamError as error:
        return unreadable_row(work.run, error.fact, work.size)


def _row_of_ends(work: ScanWork, dialect: DialectChoice) -> dict[str, Any]:
    row = row_of(summarize_ends(work.path, dialect=dialect, checked_bytes=0), work.run)
    unknown = {"best": None, "count": 0, "nan": 0}
    return row | {"metrics": {name: facts | unknown for name, facts in row["metrics"].items()}}


def glance(work: ScanWork, dialect: DialectChoice) -> Scanned:
    """Return the row of a stream by its first and last lines, without one for a file that is not a run."""
    try:
        return Scanned(work.path, work.identity, _row_of_ends(work, dialect))
    except UnknownFormatError:
        return Scanned(work.path, work.identity, None)
    except StreamError as error:
        return Scanned(work.path, work.identity, unreadable_row(work.run, error.fact, work.size))


def check_run(path: str, dialect: DialectChoice) -> FileReport | None:
    """Return the report on the stream at *path*; None if it cannot be checked."""
    from toyspec.checker import CheckOptions, iter_reports

    options = CheckOptions(dialect=dialect.name, keys=dialect.keys, dialects=dialect.own)
    report = next(iter(iter_reports([path], options=options)), None)
    return report if isinstance(report, FileReport) else None


def count_findings(path: str, dialect: DialectChoice) -> dict[str, int] | None:
    """Return the number of findings of each severity in the stream at *path*; None if it cannot be checked."""
    return counted(check_run(path, dialect))


def counted(report: FileReport | None) -> dict[str, int] | None:
    """Return the number of findings of each severity in a *report*; None without one."""
    if report is None:
        return None
    counts = Counter(finding.severity for finding in report.findings)
    severities = {finding.rule: finding.severity for finding in report.findings}
    for rule, number in report.suppressed.items():
        counts[severities[rule]] += number
    return {"error": counts["error"], "warning": counts["warning"], "info": counts["info"]}


class ScanWorkers:
    """Runs scans and checks in the background, in processes where that pays."""

    def __init__(self, directory: str, dialect: DialectChoice) -> None:
        """Keep curves in the cache *directory*."""
        self._directory = directory
        self._dialect = dialect
        self._executor: Executor | None = None
        self._requests: ThreadPoolExecutor | None = None
        # Held while work is handed in, so that nothing ends meanwhile what takes it; never while work reports back.
        self._lock = threading.Lock()
        self._is_closed = False

    def scan(self, works: Sequence[ScanWork], done: Callable[[Sequence[Scanned]], None]) -> dict[str, Future[Any]]:
        """Begin to scan *works* and return the future of each path; *done* gets what was scanned, batch by batch."""
        with self._lock:
            shared_out = list(self._shared_out(works))
            # A few long streams do not keep all cores busy otherwise.
            threads = max(1, _cores() // max(1, len(shared_out)))
            futures = [
                (pool.submit(_scan_batch, batch, (self._directory, self._dialect, threads)), batch)
                for pool, batch in shared_out
            ]
        for future, batch in futures:
            future.add_done_callback(partial(self._scanned, batch, done))
        return {work.path: future for future, batch in futures for work in batch}

    def _scanned(
        self, batch: list[ScanWork], done: Callable[[Sequence[Scanned]], None], task: Future[list[Scanned]]
    ) -> None:
        """Give *done* what the *task* has scanned; scan *batch* again if a worker was killed meanwhile."""
        if task.cancelled() or task.exception() is None or self._is_closed:
            done(_result(task))
            return
        # The executor does not say which stream the worker was killed by, and takes no more work.
        self.rest()
        threading.Thread(target=self._scan_apart, args=(batch, done), name="toyspec-rescan", daemon=True).start()

    def _scan_apart(self, batch: list[ScanWork], done: Callable[[Sequence[Scanned]], None]) -> None:
        """Scan *batch* in one process after another, so that a stream that ends its worker takes no other with it."""
        call = partial(_scan_batch, how=(self._directory, self._dialect, 1))
        work: Work[ScanWork, Scanned] = Work(call, lambda each: each.size, _lost)
        found = results_of(batch, work, Processes(1, "spawn"), order="any")
        with contextlib.closing(found):
            for _, scanned in found:
                if self._is_closed:
                    return
                done([scanned])

    def glance(self, works: Sequence[ScanWork], done: Callable[[Sequence[Scanned]], None]) -> None:
        """Begin to read the ends of *works*, which are objects; *done* gets each row."""
        for work in () if self._is_closed else works:
            future = self._remote_pool().submit(glance, work, self._dialect)
            future.add_done_callback(lambda task: done([_result(task)] if _result(task) else []))

    def check(self, works: Sequence[ScanWork], done: Callable[[Sequence[tuple[str, Any]]], None]) -> list[Future[Any]]:
        """Begin to count the findings of *works*; *done* gets paths and counts, batch by batch."""
        with self._lock:
            futures = [pool.submit(_check_batch, batch, self._dialect) for pool, batch in self._shared_out(works)]
        for future in futures:
            future.add_done_callback(lambda task: done(_result(task)))
        return futures

    def _shared_out(self, works: Sequence[ScanWork]) -> Iterator[tuple[Executor, list[ScanWork]]]:
        """Yield the batches of *works*, each with what runs it; nothing after ``close``."""
        if self._is_closed:
            return
        remote = [work for work in works if is_address(work.path)]
        local = [work for work in works if not is_address(work.path)]
        for batch in _batches(local):
            yield self._pool(local), batch
        for work in remote:
            yield self._remote_pool(), [work]

    def _remote_pool(self) -> ThreadPoolExecutor:
        # Requests wait more than they compute, and their credentials are known to this process alone.
        if self._requests is None:
            self._requests = ThreadPoolExecutor(_REMOTE_WORKERS, thread_name_prefix="toyspec-requests")
        return self._requests

    def _pool(self, works: Sequence[ScanWork]) -> Executor:
        if self._executor is None:
            number = _cores()
            if number > 1 and sum(work.size for work in works) > _ALONE_BYTES:
                context = multiprocessing.get_context(start_method())
                self._executor = ProcessPoolExecutor(number, mp_context=context, initializer=_leave_interrupts)
            else:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="toyspec-scan")
        return self._executor

    def rest(self) -> None:
        """End the worker processes, whose memory is then free; later work starts new ones."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End all work, for good."""
        self._is_closed = True
        executor, self._executor = self._executor, None
        for each in (executor, self._requests):
            if each is not None:
                each.shutdown(wait=True, cancel_futures=True)


def _cores() -> int:
    return min(cores(), _MOST_WORKERS)


def _leave_interrupts() -> None:
    """Let the server alone decide what Ctrl-C does."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _scan_batch(batch: list[ScanWork], how: tuple[str, DialectChoice, int]) -> list[Scanned]:
    directory, dialect, threads = how
    store = CurveStore(directory)
    return [scan_stream(work, store, dialect, threads) for work in batch]


def _lost(work: ScanWork, reason: str) -> Scanned:
    return Scanned(work.path, work.identity, unreadable_row(work.run, reason, work.size))


def _check_batch(batch: list[ScanWork], dialect: DialectChoice) -> list[tuple[str, Any]]:
    return [(work.path, count_findings(work.path, dialect)) for work in batch]


def _result(task: Future[Any]) -> Any:
    """Return the result of a finished *task*; an empty one if it was cancelled or its process was killed."""
    return [] if task.cancelled() or task.exception() is not None else task.result()


def _batches(works: Sequence[ScanWork]) -> Iterator[list[ScanWork]]:
    batch: list[ScanWork] = []
    size = 0
    for work in works:
        batch.append(work)
        size += work.size
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_STREAMS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
