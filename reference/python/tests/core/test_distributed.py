from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.util
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from toyspec import start_run
from toyspec.core.checker import checking
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.errors import WorkersError
from toyspec.core.runs.discovery import Stream
from toyspec.core.workers.processes import DIED, OUT_OF_MEMORY, Processes, TimedAnswers
from toyspec.core.workers.running import Threads, Work, Workers, WorkLoss, batches, results_of

needs_fork = pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="the tests change what is forked")

RUN = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"%s"}\n{"kind":"run_end","t":1.0,"reason":"completed"}\n'


def doubled(items: list[int], *, killers: frozenset[int] = frozenset(), seen: str = "") -> list[int]:
    """Return each item twice as large; a killer ends the process, with the directory *seen* only once."""
    for item in items:
        if item in killers and not (seen and _is_known(Path(seen, str(item)))):
            os.kill(os.getpid(), signal.SIGKILL)
    return [2 * item for item in items]


def _is_known(place: Path) -> bool:
    try:
        place.touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


def work(call: object) -> Work[int, int | str]:
    """Return what doubles numbers, where a lost one becomes a text."""
    return Work(call, lambda item: 1 + item, lambda item, reason: f"{item}: {reason}")  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [Processes(1), Processes(3), Processes(2, "spawn"), Threads(3)])
def test_results_come_in_order(workers: Workers) -> None:
    """Each item comes with its result, in the order of the items, whatever does the work."""
    items = list(range(500))
    assert [(item, 2 * item) for item in items] == list(results_of(items, work(doubled), workers))
    assert sorted((item, 2 * item) for item in items) == sorted(results_of(items, work(doubled), workers, order="any"))


@needs_fork
def test_killed_worker_costs_a_retry(tmp_path: Path) -> None:
    """A worker that is killed once loses nothing: of two, the second could be killed when its item is asked again."""
    call = partial(doubled, killers=frozenset([100]), seen=str(tmp_path))
    assert [(item, 2 * item) for item in range(500)] == list(results_of(range(500), work(call), Processes(2)))
    assert ["100"] == os.listdir(tmp_path)


def takes_all(items: list[int]) -> list[int]:
    """Return *items*, but take more memory than there is for one of them."""
    return [len(bytearray(1 << 44)) if item == 3 else item for item in items]


def test_item_that_takes_all_memory_is_isolated() -> None:
    """An allocation that fails ends no more than the work on its own item."""
    found = dict(results_of(range(10), work(takes_all), Processes(2)))
    assert {item: item for item in range(10)} | {3: f"3: {OUT_OF_MEMORY}"} == found


def tells_its_parent(items: list[int], *, parent: int) -> list[int]:
    """Interrupt *parent*, and go on."""
    os.kill(parent, signal.SIGINT)
    time.sleep(60)
    return items


@needs_fork
@pytest.mark.parametrize("has_written", [False, True], ids=["", "a run was written"])
def test_interrupt_ends_the_workers(tmp_path: Path, has_written: bool) -> None:
    """Ctrl-C in the program ends its workers in the middle of their batches, and its handler is called."""
    if has_written:  # signals are watched from then on
        start_run(tmp_path, git=None).close()
    before = (set(multiprocessing.active_children()), signal.getsignal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        list(results_of(range(500), work(partial(tells_its_parent, parent=os.getpid())), Processes(2)))
    assert set() == set(multiprocessing.active_children()) - before[0]
    assert before[1] == signal.getsignal(signal.SIGINT)


@needs_fork
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_worker_that_is_ended_as_it_starts_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of the program does not run in a worker: one that returns would let it go on, and its parent wait."""
    number = getattr(signal, name)
    first_act_of_a_fork = "_close_stdin"
    monkeypatch.setattr(multiprocessing.util, first_act_of_a_fork, lambda: os.kill(os.getpid(), number))
    before = signal.signal(number, lambda *_: None)
    try:
        found = dict(results_of([3], work(doubled), Processes(1)))
    finally:
        signal.signal(number, before)
    assert {3: f"3: {DIED}"} == found


def hung_up(items: list[int]) -> list[int]:
    """Return *items* after a signal that ends a program."""
    os.kill(os.getpid(), signal.SIGHUP)
    return items


@needs_fork
@pytest.mark.parametrize(("handler", "result"), [(signal.SIG_IGN, 3), (signal.SIG_DFL, f"3: {DIED}")])
def test_worker_ignores_what_its_program_ignores(handler: signal.Handlers, result: object) -> None:
    """The workers of a program that nohup has started go on as the program does."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        [(_, found)] = results_of([3], work(hung_up), Processes(1))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert result == found


class Kept:
    """Something of the parent, in a cycle, whose destruction is seen."""

    def __init__(self, seen: Path) -> None:
        self.itself, self.seen = self, seen

    def __del__(self) -> None:
        self.seen.with_suffix(f".{os.getpid()}").touch()


def collects(items: list[int]) -> list[int]:
    """Return *items* after a collection of garbage."""
    gc.collect()
    return items


@needs_fork
def test_worker_destroys_nothing_of_its_parent(tmp_path: Path) -> None:
    """Garbage of the parent, such as a client with threads, is left alone by a fork of it."""
    gc.disable()
    try:
        Kept(tmp_path / "destroyed")
        assert {3: 3} == dict(results_of([3], work(collects), Processes(1)))
    finally:
        gc.enable()
    gc.collect()
    assert [f"destroyed.{os.getpid()}"] == [path.name for path in tmp_path.iterdir()]


def refuses(items: list[int]) -> list[int]:
    """Raise an exception."""
    raise ValueError("no such rule")


@pytest.mark.parametrize("workers", [Processes(2), Threads(2)])
def test_exception_of_the_work_is_raised(workers: Workers) -> None:
    """What the work raises is raised here, and no worker is left."""
    before = set(multiprocessing.active_children())
    with pytest.raises(ValueError, match="no such rule"):
        list(results_of(range(10), work(refuses), workers))
    assert set() == set(multiprocessing.active_children()) - before


class _Recording:
    """A crew that notes what it is given, and loses its machine at first."""

    size = 1

    def __init__(self, losses: int) -> None:
        self.given: list[list[int]] = []
        self._losses = losses

    def start(self, call: object) -> _Recording:
        return self

    def submit(self, items: list[int]) -> Future[list[Any]]:
        self.given.append(items)
        future: Future[list[Any]] = Future()
        if len(self.given) <= self._losses:
            future.set_exception(OSError())
        else:
            future.set_result(doubled(items))
        return future

    def loss(self, error: BaseException) -> WorkLoss:
        return WorkLoss("its machine was lost", is_blameless=True)

    def close(self) -> None:
        return


def test_lost_machine_is_not_blamed_on_its_work() -> None:
    """A batch whose machine is lost several times is done again, undivided."""
    crew = _Recording(losses=5)
    assert [(1, 2), (2, 4)] == list(results_of([1, 2], work(doubled), crew))
    assert [[1, 2]] * 6 == crew.given


def test_batches_are_of_bytes() -> None:
    """A batch ends with enough bytes or items, and an item of unknown size is alone."""
    sizes = [1 << 20, 5, 5, 0, *[1] * 100]
    assert [1, 2, 1, 64, 36] == [len(batch) for batch in batches(sizes, int)]


@needs_fork
@pytest.mark.usefixtures("plain_python")
def test_poisoned_run_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that ends every process that reads it is listed, all others are checked, and the exit status is 2."""
    for name in ("a", "b", "poison", "z"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").write_bytes(RUN % name.encode())
    opened = checking._opened

    def poisoned(stream: Stream) -> object:
        if "poison" in stream.path:
            os.kill(os.getpid(), signal.SIGKILL)
        return opened(stream)

    monkeypatch.setattr(checking, "_opened", poisoned)
    monkeypatch.chdir(tmp_path)
    assert exit_codes.USAGE == main(["check", "--workers", "2", "."])
    output = capsys.readouterr().out
    assert f"poison/events.jsonl: not checked: {DIED}; all others were checked" in output
    assert "3 runs: 3 complete" in output


def slept(seconds: list[float]) -> list[float]:
    """Return *seconds* after having slept each of them; a negative one ends the process."""
    for each in seconds:
        if each < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(each)
    return seconds


@pytest.mark.posix
def test_answer_that_takes_too_long_is_given_up() -> None:
    """The next question has a process of its own, and so it has after one that died."""
    answers = TimedAnswers(slept, 0.5)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.5 s"):
        answers.ask(300.0)
    answers = TimedAnswers(slept, 100.0)
    try:
        with pytest.raises(WorkersError, match=DIED):
            answers.ask(-1.0)
        assert 0.0 == answers.ask(0.0)
    finally:
        answers.close()


PROGRAM = """
import time
from toyspec.core.workers.processes import Processes

def sleeps(items):
    print("begun", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    Processes(1).start(sleeps).submit([1])
    time.sleep(600)
"""


@needs_fork
def test_workers_end_with_a_program_that_is_killed(tmp_path: Path) -> None:
    """A worker of a program that had no time to end it does not stay."""
    (tmp_path / "program.py").write_text(PROGRAM)
    with subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert "begun\n" == program.stdout.readline()
        program.kill()
        # The worker has the other end of the pipe too.
        assert "" == program.stdout.read()
