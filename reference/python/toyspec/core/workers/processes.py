"""Workers that are processes of this machine."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.core.errors import WorkersError
from toyspec.core.programs import safe_path
from toyspec.core.workers.running import CrewEndedError, WorkLoss, done

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.core.workers.running import Call

Start = Literal["spawn"] | None
"""How a process begins: as a new program, or as this system usually does it."""

OUT_OF_MEMORY = "it took more memory than there is"
DIED = "its worker process was ended, as happens where memory runs out"
# Windows waits for no more of them.
_MOST_PROCESSES = 61
_ENDING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
"""Signals that end a worker."""
_LEFT: list[ProcessPoolExecutor] = []
"""Those that an interruption kept from their end: one that is destroyed writes to a pipe that its own thread closes."""


class Processes(NamedTuple):
    """A number of processes; a new program each where what has been used here, such as a store, survives no fork."""

    number: int
    method: Start = None

    def start(self, call: Call) -> ProcessCrew:
        """See Workers."""
        return ProcessCrew(self.number, call, self.method)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ProcessCrew:
    """See Crew. The processes start with the first batch, and again after one of them was lost."""

    def __init__(self, number: int, call: Call, method: Start) -> None:
        self.size = min(number, _MOST_PROCESSES)
        self._call = call
        self._context = multiprocessing.get_context(method)
        self._pool: ProcessPoolExecutor | None = None
        self.is_ended = False
        """Whether ``end`` was called."""

    def submit(self, items: list[Any]) -> Future[list[Any]]:
        """See Crew. Raise CrewEndedError after ``end``."""
        if self.is_ended:
            raise CrewEndedError
        with _signals_held(), safe_path():
            if self._pool is None:
                self._pool = ProcessPoolExecutor(self.size, self._context, initializer=_begin)
            try:
                return self._pool.submit(done, self._call, items)
            except BrokenProcessPool as error:
                lost = Future[list[Any]]()
                lost.set_exception(error)
                return lost

    def loss(self, error: BaseException) -> WorkLoss | None:
        """See Crew. Raise CrewEndedError after ``end``."""
        if self.is_ended:
            raise CrewEndedError
        if isinstance(error, BrokenProcessPool):
            self.close()
            return WorkLoss(DIED)
        return WorkLoss(OUT_OF_MEMORY) if isinstance(error, MemoryError) else None

    def end(self) -> None:
        """End the workers, also in the middle of a batch; any thread may call this, others wait for no batch then."""
        self.is_ended = True
        self._terminate()

    def _terminate(self) -> None:
        # The standard library ends no worker before its batch is done.
        processes = self._pool and self._pool._processes  # noqa: SLF001
        for process in list(processes.values()) if processes else []:
            process.terminate()

    def close(self) -> None:
        """See Crew."""
        self._terminate()
        if self._pool is not None:
            try:
                self._pool.shutdown(cancel_futures=True)
            except KeyboardInterrupt:
                _LEFT.append(self._pool)
                raise
            self._pool = None


class TimedAnswers:
    """Answers questions in a process of its own, one at a time, and each within a time.

    The process begins with the first question. One that takes longer is ended, and the next question gets another.
    """

    def __init__(self, call: Call, seconds: float) -> None:
        self._crew = ProcessCrew(1, call, "spawn")
        self._seconds = seconds
        self._asking = threading.Lock()

    def ask(self, question: Any) -> Any:
        """Return the answer to *question*; raise TimeoutError, or WorkersError with the reason if the process ended."""
        with self._asking:
            answer = self._crew.submit([question])
            try:
                error = answer.exception(self._seconds)
            except TimeoutError:
                self.close()
                raise TimeoutError(f"no answer within {self._seconds:g} s") from None
            loss = None if error is None else self._crew.loss(error)
            if loss is not None:
                raise WorkersError(loss.reason)
            return answer.result()[0]

    def close(self) -> None:
        """End the process."""
        self._crew.close()


def _begin() -> None:
    """Make this process a worker: it ends with the program that has started it, and by the signals that end programs.

    What that program ignores is ignored, except SIGTERM, by which it ends its workers.
    """
    # What a fork has copied belongs to the parent: to destroy it here could wait for threads that were not copied.
    gc.freeze()
    for number in _ENDING:
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Delay what ends the program, also in a process that is started meanwhile.

    A fork has the handlers of the program until ``_begin`` runs. One that raises would do what follows in the program
    a second time, in the worker; after one that returns, the worker would never end.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
