"""Scans and checks streams, one after another or in worker processes."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toyspec.core.errors import StreamError, UnknownFormatError
from toyspec.core.places.addresses import is_address
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.runs.summary import summarize_ends
from toyspec.core.system_calls import cause_of
from toyspec.core.workers.processes import Processes, cores
from toyspec.core.workers.running import CrewEndedError, Threads, Work, batches, results_of
from toyspec.view.curve_store import CurveStore, pack
from toyspec.view.opened_files import identity_at
from toyspec.view.rows import row_of, unreadable_row
from toyspec.view.scans import ScannedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.core.reading.live_stream import Identity
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.core.runs.discovery import Stream
    from toyspec.core.runs.summary import RunSummary
    from toyspec.core.workers.processes import ProcessCrew
    from toyspec.core.workers.running import Call

ALONE_BYTES = 16 << 20
"""Number of bytes that one process reads alone: to start others costs as much."""
_MOST_WORKERS = 8
# What begins with the server takes cores from the browser, which shows the list of runs meanwhile.
_FIRST_SECONDS = 1.0
# Requests to a store that wait at the same time.
_REMOTE_WORKERS = 8


class ScanWork(NamedTuple):
    """One stream to scan."""

    path: str
    run: str
    """The id of the run."""
    identity: Identity
    """That of the stream when it was found."""
    found: Stream | None = None
    """What a search has found of it and beside it."""

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


def row_of_work(summary: RunSummary, work: ScanWork) -> dict[str, Any]:
    """Return the row of *summary*, that of the stream of *work*, with what a search has found beside it."""
    summary.found = work.found
    return row_of(summary.facts, work.run, [] if is_address(work.path) else list(ranks_beside(work.path)))


def scan_stream(work: ScanWork, store: CurveStore, dialect: DialectChoice, threads: int = 1) -> Scanned:
    """Scan a stream, on so many *threads* if it is long, keep its curves in *store* and return its row."""
    try:
        with contextlib.closing(ScannedRun(work.path, dialect, threads=threads)) as file:
            file.read()
            identity = file.identity()
            if not file.is_known:
                return Scanned(work.path, identity, None)
            row = row_of_work(file.scan.summary, work)
            store.save(work.path, *pack(file))
            return Scanned(work.path, identity, row)
    except (StreamError, OSError) as error:
        fact = cause_of(error)
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
    summary = summarize_ends(work.path, dialect=dialect, checked_bytes=0)
    # The rest of the stream is read next; this row is to be there before.
    summary.is_settled = summary.knows_metrics = True
    row = row_of_work(summary, work)
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


class ScanWorkers:
    """Runs scans and checks in the background, in processes where that pays; a killed process hides no stream."""

    def __init__(self, directory: str, dialect: DialectChoice) -> None:
        """Keep curves in the cache *directory*."""
        self._directory = directory
        self._dialect = dialect
        # It reads small files itself, and leads the processes that read many or large ones.
        self._leader = ThreadPoolExecutor(1, thread_name_prefix="toyspec-scan")
        # Requests wait more than they compute, and their credentials are known to this process alone.
        self._requests = ThreadPoolExecutor(_REMOTE_WORKERS, thread_name_prefix="toyspec-requests")
        self._crew: ProcessCrew | None = None
        # Held while work is handed in, so that nothing ends meanwhile what takes it; never while work reports back.
        self._lock = threading.Lock()
        self._is_closed = False

    def wait_for(self, event: threading.Event) -> None:
        """Begin no scan or check of files before *event*, at most some time later: it comes with the first picture."""
        with self._lock:
            if not self._is_closed:
                self._leader.submit(event.wait, _FIRST_SECONDS)

    def scan(self, works: Sequence[ScanWork], done: Callable[[Scanned], None]) -> dict[str, Future[None]]:
        """Begin to scan *works*; *done* gets what was scanned, one by one. Return what ends after that, by path."""
        ends: dict[str, Future[None]] = {work.path: Future() for work in works}

        def scanned(found: Scanned) -> None:
            try:
                done(found)
            finally:
                ends[found.path].set_result(None)

        # A few long streams do not keep all cores busy otherwise.
        threads = max(1, _cores() // max(1, sum(1 for _ in batches(works, _size))))
        call = partial(_scan_batch, directory=self._directory, dialect=self._dialect, threads=threads)
        begun = self._begin(works, call, _lost, scanned)
        for future, part in begun:
            future.add_done_callback(partial(_cancel, [ends[work.path] for work in part]))
        return ends

    def check(self, works: Sequence[ScanWork], done: Callable[[tuple[str, Any]], None]) -> list[Future[None]]:
        """Begin to count the findings of *works*; *done* gets a path and its counts, one by one."""
        call = partial(_check_batch, dialect=self._dialect)
        return [future for future, _ in self._begin(works, call, lambda work, _: (work.path, None), done)]

    def glance(self, works: Sequence[ScanWork], done: Callable[[Scanned], None]) -> None:
        """Begin to read the ends of *works*, which are objects; *done* gets each row."""
        with self._lock:
            for work in () if self._is_closed else works:
                self._requests.submit(lambda each: done(glance(each, self._dialect)), work)

    def _begin(
        self,
        works: Sequence[ScanWork],
        call: Callable[..., list[Any]],
        lost: Callable[[ScanWork, str], Any],
        done: Callable[[Any], None],
    ) -> list[tuple[Future[None], list[ScanWork]]]:
        """Begin to *call* for all of *works*; return what was begun, nothing after ``close``."""
        local = [work for work in works if not is_address(work.path)]
        remote = [[work] for work in works if is_address(work.path)]
        with self._lock:
            if self._is_closed:
                return []
            begun = [(self._requests.submit(lambda part: done(*call(part)), each), each) for each in remote]
            if local:
                begun.append((self._leader.submit(self._lead, local, Work(call, _size, lost), done), local))
        return begun

    def _lead(self, works: list[ScanWork], work: Work[ScanWork, Any], done: Callable[[Any], None]) -> None:
        """Give *done* the result of each of *works*, as long as this is open."""
        in_processes = _cores() > 1 and sum(map(_size, works)) > ALONE_BYTES
        found = results_of(works, work, self if in_processes else Threads(1), order="any")
        with contextlib.suppress(CrewEndedError), contextlib.closing(found):
            for _, result in found:
                if self._is_closed:
                    return
                done(result)

    def start(self, call: Call) -> ProcessCrew:
        """Return the processes that do *call*, see Workers; ``close`` ends them."""
        self._crew = Processes(_cores(), "spawn").start(call)
        if self._is_closed:
            self._crew.end()
        return self._crew

    def close(self) -> None:
        """End all work, for good."""
        with self._lock:
            self._is_closed = True
        if self._crew is not None:
            self._crew.end()
        for each in (self._leader, self._requests):
            each.shutdown(wait=True, cancel_futures=True)


def _cores() -> int:
    return min(cores(), _MOST_WORKERS)


def _size(work: ScanWork) -> int:
    return work.size


def _scan_batch(batch: list[ScanWork], directory: str, dialect: DialectChoice, threads: int) -> list[Scanned]:
    store = CurveStore(directory)
    return [scan_stream(work, store, dialect, threads) for work in batch]


def _lost(work: ScanWork, reason: str) -> Scanned:
    return Scanned(work.path, work.identity, unreadable_row(work.run, reason, work.size))


def _check_batch(batch: list[ScanWork], dialect: DialectChoice) -> list[tuple[str, Any]]:
    # Imported here: start-up time counts.
    from toyspec.core.checker.checking import count_findings

    return [(work.path, count_findings(work.path, dialect)) for work in batch]


def _cancel(ends: Sequence[Future[None]], _: Future[None]) -> None:
    """Wake those that wait for what has not ended: the work was cancelled, or has failed."""
    for end in ends:
        end.cancel()
