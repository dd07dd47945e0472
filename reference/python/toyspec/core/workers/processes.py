"""Workers that are processes of this machine."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toyspec.core.errors import WorkersError
from toyspec.core.programs import safe_path
from toyspec.core.workers.running import CrewEndedError, Finished, passable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from toyspec.core.workers.running import Call

Start = Literal["spawn"] | None
"""How a process begins: as a new program, or as this system usually does it."""

OUT_OF_MEMORY = "it took more memory than a worker has"
_ENDED: tuple[str, Any] = ("ended", None)
_LEAST_MEMORY = 1 << 30
_MEMORY_SHARE = 0.75
_ENDING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
"""Signals that end a worker."""
# Workers that start may pass one Ctrl-C on more than once; a person who presses it again waits longer.
_INSISTING_SECONDS = 1.0


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


class _Worker:
    """One process, and the pipe to it."""

    def __init__(self, context: Any, call: Call, share: int) -> None:
        self.pipe, theirs = context.Pipe()
        with _signals_held(), safe_path():
            self.process = context.Process(target=_serve, args=(theirs, call, share), daemon=True)
            self.process.start()
        # With the only other end in the process, its end is seen.
        theirs.close()
        self.key: int | None = None

    def end(self) -> None:
        if self.key is None:
            with contextlib.suppress(OSError):
                self.pipe.send(None)
        else:
            self.process.terminate()
        self.process.join()
        self.pipe.close()


class _Interrupts:
    """Ctrl-C while a crew is open: remembered, and given to the program's handler where the crew is called.

    Python's own handler raises KeyboardInterrupt wherever the program is, also in a ``__del__``, which prints it and
    goes on. Outside the main thread, and where Ctrl-C is ignored, nothing is done.
    """

    def __init__(self, context: Any) -> None:
        self.reader, self._writer = context.Pipe(duplex=False)
        """Readable once there was one."""
        self._seen_at: float | None = None
        self._before: Any = signal.getsignal(signal.SIGINT)
        self._is_held = threading.current_thread() is threading.main_thread() and callable(self._before)
        if self._is_held:
            # Where runs are kept, what is found above is theirs, and this returns the handler of the program.
            self._before = signal.signal(signal.SIGINT, self._see)
            if not callable(self._before):
                self._is_held = False
                signal.signal(signal.SIGINT, self._before)

    def _see(self, *_: object) -> None:
        now = time.monotonic()
        if self._seen_at is None:
            self._seen_at = now
            self._writer.send_bytes(b"!")
        elif now - self._seen_at > _INSISTING_SECONDS:
            # The program is busy elsewhere, for example with a pipe that nothing reads.
            self._pass_on()

    def _pass_on(self) -> None:
        """Do what Ctrl-C does in this program: raise KeyboardInterrupt, unless it has a handler of its own."""
        if callable(self._before):
            self._before(signal.SIGINT, None)

    def demand_none(self) -> None:
        """Pass Ctrl-C on if there was one; only once."""
        if self._seen_at is not None and self.reader.poll():
            self.reader.recv_bytes()
            self._pass_on()

    def close(self) -> None:
        """Let Ctrl-C do again what it did, and pass on one that was not."""
        if self._is_held:
            self._is_held = False
            signal.signal(signal.SIGINT, self._before)
        if not self.reader.closed:
            is_owed = self.reader.poll()
            self.reader.close()
            self._writer.close()
            if is_owed:
                self._pass_on()


class ProcessCrew:
    """See Crew. A process starts when there is work for it; one that has ended is replaced."""

    def __init__(self, number: int, call: Call, method: Start) -> None:
        self._context = multiprocessing.get_context(method)
        self._interrupts = _Interrupts(self._context)
        self._call = call
        self.size = number
        self._share = int(_MEMORY_SHARE * _memory() / number)
        self._workers: list[_Worker] = []
        self.is_ended = False
        """Whether ``end`` was called."""

    def submit(self, key: int, items: list[Any]) -> None:
        """See Crew. Raise KeyboardInterrupt after Ctrl-C."""
        self._interrupts.demand_none()
        idle = next((worker for worker in self._workers if worker.key is None), None)
        if idle is None:
            idle = _Worker(self._context, self._call, self._share)
            self._workers.append(idle)
        idle.key = key
        with contextlib.suppress(OSError):  # it has ended, as finished will report
            idle.pipe.send(items)

    def finished(self) -> list[Finished]:
        """See Crew. Raise KeyboardInterrupt after Ctrl-C, and CrewEndedError after ``end``."""
        if self.is_ended:
            raise CrewEndedError
        busy = {worker.pipe: worker for worker in self._workers if worker.key is not None}
        ended = {worker.process.sentinel: worker for worker in busy.values()}
        ready = connection.wait([*busy, *ended, self._interrupts.reader])
        self._interrupts.demand_none()
        chosen = {id(worker): worker for each in ready if (worker := busy.get(each) or ended.get(each))}
        return [self._received(worker) for worker in chosen.values()]

    def end(self) -> None:
        """End the workers, also in the middle of a batch; any thread may call this, others wait for no batch then."""
        self.is_ended = True
        for worker in [*self._workers]:
            worker.process.terminate()

    def _received(self, worker: _Worker) -> Finished:
        assert worker.key is not None
        key = worker.key
        try:
            answer, value = worker.pipe.recv() if worker.pipe.poll() else _ENDED
        except (EOFError, OSError):
            answer, value = _ENDED
        if answer == "done":
            worker.key = None
            return Finished(key, value)
        if answer == "raised":
            worker.key = None
            raise value
        self._workers.remove(worker)
        worker.end()
        return Finished(key, [], OUT_OF_MEMORY if answer == "memory" else _reason(worker.process.exitcode))

    def close(self) -> None:
        """See Crew."""
        for worker in self._workers:
            if worker.key is not None:
                worker.process.terminate()
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._interrupts.close()


class TimedAnswers:
    """Answers questions in a process of its own, one at a time, and each within a time.

    The process begins with the first question. One that takes longer is ended, and the next question gets another.
    """

    def __init__(self, call: Call, seconds: float) -> None:
        self._call = call
        self._seconds = seconds
        self._crew: ProcessCrew | None = None
        self._asking = threading.Lock()

    def ask(self, question: Any) -> Any:
        """Return the answer to *question*; raise TimeoutError, or WorkersError with the reason if the process ended."""
        with self._asking:
            crew = self._crew = self._crew or ProcessCrew(1, self._call, "spawn")
            limit = threading.Timer(self._seconds, crew.end)
            limit.start()
            try:
                crew.submit(0, [question])
                (done,) = crew.finished()
            except CrewEndedError:
                done = Finished(0, [], "")
            finally:
                limit.cancel()
            if crew.is_ended:
                self.close()
                raise TimeoutError(f"no answer within {self._seconds:g} s")
            if done.lost is not None:
                raise WorkersError(done.lost)
            return done.results[0]

    def close(self) -> None:
        """End the process."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"its worker process was ended by {signal.Signals(-code).name}"
    return f"its worker process ended with exit status {code}"


def _serve(pipe: Connection, call: Call, share: int) -> None:
    """Do what comes through *pipe* until it is closed."""
    # What a fork has copied belongs to the parent: to destroy it here could wait for threads that were not copied.
    gc.freeze()
    _end_on_signals()
    _limit_memory(share)
    parent = multiprocessing.parent_process()
    others = [parent.sentinel] if parent is not None else []
    while pipe in connection.wait([pipe, *others]):
        try:
            items = pipe.recv()
        except EOFError:
            return
        if items is None:
            return
        answer: tuple[str, Any]
        try:
            answer = ("done", call(items))
        except MemoryError:
            pipe.send(("memory", None))
            return
        except Exception as error:  # noqa: BLE001 - the process that started this one raises it
            answer = ("raised", passable(error))
        pipe.send(answer)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Delay what ends the program, also in a process that is started meanwhile.

    A fork has the handlers of the program until ``_serve`` runs. One that raises would do what follows in the program
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


def _end_on_signals() -> None:
    """Let Ctrl-C and the others end a worker at once, without a traceback from each of them.

    What the program ignores is ignored, except SIGTERM, by which it ends its workers.
    """
    for number in _ENDING:
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _memory() -> int:
    """Return the number of bytes of memory that there are for this process; 0 where that is not known."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
        found = min(found, int(file.read()))
    return found


def _limit_memory(share: int) -> None:
    """Let an allocation beyond what was there and *share* fail, before the system chooses a process to end."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[5]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = used + max(share, _LEAST_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
    except (ImportError, OSError, ValueError):  # not on Linux
        return
