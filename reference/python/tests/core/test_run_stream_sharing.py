"""Runs that are written by threads, signal handlers, forked children and processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from files import content, in_subprocess
from toyspec.core.checker.checking import check, check_bytes
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.run_writer import RunWriter

pytestmark = pytest.mark.posix


def test_threads_share_a_run(directory: Path) -> None:
    """Records of threads do not mix, time does not go backwards, and every step has its own number."""
    with RunWriter(directory, on_error="raise") as run:
        run.run_start()

        def log() -> None:
            for _ in range(200):
                run.step(loss=0.5)
                run.note("x")

        threads = [threading.Thread(target=log) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    report = check(run.events_path).files[0]
    assert ([], 1602) == (report.findings, report.records)


def test_a_record_that_waits_while_the_run_is_closed_is_not_lost(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread whose turn comes after the end opens the run again, as if it had called later."""
    run = RunWriter(directory, resuming="by-itself")
    run.run_start()
    file: Any = run._stream._file
    in_turn, waits = file.in_turn, threading.Event()

    def announced(*arguments: Any) -> None:
        waits.set()
        in_turn(*arguments)

    monkeypatch.setattr(file, "in_turn", announced)
    late = threading.Thread(target=run.note, args=("late",))
    with file.lock:
        late.start()
        assert waits.wait(300)
        run.close()
    late.join()
    run.close()
    kinds = ["run_start", "run_end", "run_resume", "note", "run_end"]
    assert kinds == [record.kind for record in read(directory)]


@pytest.fixture
def interrupting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a maker of calls whose writes raise SIGUSR1 in their middle, and what a handler is to do."""
    actions: list[Any] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: actions.pop(0)())

    def write(descriptor: int, data: Any) -> int:
        if not actions:
            return os.write(descriptor, data)
        written = os.write(descriptor, data[: len(data) // 2])
        signal.raise_signal(signal.SIGUSR1)
        return written

    yield SystemCalls(write=write), actions
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_logs_behind_what_it_interrupts(directory: Path, interrupting: Any) -> None:
    """A handler that logs, steps or ends the run inside a log call neither blocks nor tears nor reorders."""
    calls, actions = interrupting
    run = RunWriter(directory, on_error="raise", calls=calls)
    run.run_start()
    for action in (lambda: run.note("a"), run.step, lambda: run.step(loss=1)):
        actions.append(action)
        run.step(loss=0.5)
    actions.append(lambda: run.run_end("interrupted", error="SIGTERM"))
    run.step(loss=0.5)
    found = [(record.kind, record.get("step")) for record in read(run.events_path)]
    steps = [("step", 1), ("note", None), ("step", 2), ("step", 3), ("step", 4), ("step", 5), ("step", 6)]
    assert [("run_start", None), *steps, ("run_end", None)] == found
    assert [] == check(run.events_path).files[0].findings
    assert not run.active


def test_a_close_inside_a_log_call_waits_for_its_end(directory: Path, interrupting: Any) -> None:
    """A handler that closes the writer does not take the file away under a half-written line."""
    calls, actions = interrupting
    run = RunWriter(directory, on_error="raise", calls=calls)
    run.run_start()
    actions.append(run.close)
    run.step(loss=0.5)
    run.step(loss=0.5)
    assert ["run_start", "step"] == [record.kind for record in read(run.events_path)]


@pytest.mark.parametrize("part", ["half", "whole"])
@pytest.mark.parametrize("kind", ["step", "note"])
def test_a_keyboard_interrupt_inside_a_log_call_ends_the_run(directory: Path, part: str, kind: str) -> None:
    """Ctrl-C in the middle of a write leaves the record whole or not at all, and a run_end that fits what is there."""
    is_armed: list[int] = []

    def write(descriptor: int, data: Any) -> int:
        if not is_armed:
            return os.write(descriptor, data)
        is_armed.clear()
        os.write(descriptor, data[: len(data) // 2] if part == "half" else data)
        raise KeyboardInterrupt

    def log_until_interrupted(run: RunWriter) -> None:
        with run:
            run.run_start()
            run.step(loss=0.5)
            is_armed.append(1)
            run.step(loss=0.25) if kind == "step" else run.note("x")

    run = RunWriter(directory, on_error="raise", calls=SystemCalls(write=write))
    with pytest.raises(KeyboardInterrupt):
        log_until_interrupted(run)
    records = list(read(run.events_path))
    assert ["run_start", "step", *([kind] if part == "whole" else []), "run_end"] == [record.kind for record in records]
    assert (2 if (part, kind) == ("whole", "step") else 1) == records[-1]["final_step"]
    assert [] == check(run.events_path).files[0].findings


def test_an_interrupt_storm_never_spoils_a_stream(directory: Path) -> None:
    """However often a run is interrupted at arbitrary places, its stream stays valid and ends."""
    program = """if True:
        import signal, sys
        from toyspec.core.writing.run_writer import RunWriter
        armed = False
        def interrupt(*_):
            global armed
            if armed:
                armed = False
                raise KeyboardInterrupt
        # Making a decoder is not what is tested here: msgspec swallows an interrupt that hits it.
        with RunWriter(sys.argv[1] + ".warm-up", on_error="raise") as run:
            run.run_start()
            run.step(extra={})
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
        with RunWriter(sys.argv[1], on_error="raise") as run:
            for _ in range(300):
                try:
                    armed = True
                    while True:
                        if not run.has_started:
                            run.run_start()
                        for number in range(100):
                            run.step(loss=0.5)
                        run.step(loss=0.5, extra={"n": number})
                except KeyboardInterrupt:
                    pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    """
    done = in_subprocess(program, str(directory))
    assert ("", 0) == (done.stderr, done.returncode)
    report = check(directory).files[0]
    assert ("complete", []) == (report.state, report.findings)


@pytest.mark.parametrize("error", [TimeoutError, RuntimeError, ValueError])
@pytest.mark.parametrize("place", ["number", "array", "name", "attribute", "write"])
def test_what_a_signal_handler_raises_reaches_the_program(
    directory: Path, interrupting: Any, place: str, error: type[Exception]
) -> None:
    """Wherever a call is interrupted, the exception is the program's, and the log stays as it was or has the record."""
    calls, actions = interrupting

    def fail() -> None:
        raise error("time is up")

    def interrupt(*_: object) -> float:
        actions.append(fail)
        signal.raise_signal(signal.SIGUSR1)
        return 1.0

    values: dict[str, dict[Any, Any]] = {
        "number": {"a": type("Number", (), {"__float__": interrupt})()},
        "array": {"a": type("Array", (), {"item": interrupt})()},
        "name": {type("Name", (), {"item": interrupt})(): 1.0},
        "attribute": {"a": type("Lazy", (), {"item": property(interrupt)})()},
        "write": {"a": 1.0},
    }
    run = RunWriter(directory, calls=calls)
    run.run_start()
    for log in (run.log, lambda given: run.step(extra=given)):
        if place == "write":
            actions.append(fail)
        with pytest.raises(error, match="time is up"):
            log(values[place])
    run.step(loss=0.5)
    run.run_end()
    assert [] == check(run.events_path).files[0].findings
    assert (0, {}) == (run.dropped, run.left_out)


def test_an_exception_storm_loses_none(directory: Path) -> None:
    """However often a handler raises at arbitrary places, the program gets each exception, and no record is dropped."""
    program = """if True:
        import signal, sys
        from toyspec.core.writing.run_writer import RunWriter
        class Tensor:
            def item(self):
                return float(sum(range(20)))
        raised = caught = 0
        armed = False
        def interrupt(*_):
            global armed, raised
            if armed:
                armed = False
                raised += 1
                raise TimeoutError
        with RunWriter(sys.argv[1]) as run:
            run.run_start()
            # Making a decoder is not what is tested here: msgspec swallows what hits it.
            run.step(loss=Tensor(), extra={"a": Tensor()})
            run.log({"b": Tensor(), "c": 1})
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
            for _ in range(5000):
                try:
                    armed = True
                    run.step(loss=Tensor(), extra={"a": Tensor()})
                    run.log({"b": Tensor(), "c": 1})
                    armed = False
                except TimeoutError:
                    caught += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert raised > 100, raised
        print(raised - caught, run.dropped, run.left_out)
    """
    done = in_subprocess(program, str(directory))
    assert ("", "0 0 {}\n", 0) == (done.stderr, done.stdout, done.returncode)
    assert [] == check(directory).files[0].findings


def test_a_killed_run_is_torn_and_can_be_resumed(tmp_path: Path) -> None:
    """After SIGKILL at any moment the stream is valid, holds what was acknowledged, and goes on."""
    program = """if True:
        import os, sys
        from toyspec.core.writing.run_writer import RunWriter
        run = RunWriter(sys.argv[1], exist="resume", on_error="raise")
        run.run_resume(run.last_step or 0) if run.resumes else run.run_start()
        while True:
            run.step(loss=0.5, extra={"x" * 3000: 1})
            os.write(1, b"%d\\n" % run.last_step)
    """
    directory = tmp_path / "r"
    acknowledged = 0
    for attempt in range(8):
        command = [sys.executable, "-c", program, str(directory)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(0.004 * attempt)
            process.kill()
            told = (first + process.stdout.read()).split(b"\n")[:-1]
        assert [*range(acknowledged + 1, acknowledged + 1 + len(told))] == [int(number) for number in told]
        steps = [record["step"] for record in read(directory, mode="tail") if record.kind == "step"]
        assert [*range(1, len(steps) + 1)] == steps
        assert acknowledged + len(told) <= len(steps) <= acknowledged + len(told) + 1
        acknowledged = len(steps)
    data = content(str(directory / "events.jsonl"))
    committed = data[: data.rfind(b"\n") + 1]
    assert [] == [finding for finding in check_bytes(committed).findings if finding.severity == "error"]


def test_a_forked_child_may_open_its_own_run(directory: Path) -> None:
    """Workers that log open a run of their own."""
    run = RunWriter(directory, on_error="raise")
    run.run_start()
    child = os.fork()
    if child == 0:
        try:
            with RunWriter(directory.with_name("child"), on_error="raise") as own:
                own.run_start()
            os._exit(0)
        finally:
            os._exit(1)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert 2 == len(list(read(directory.with_name("child"))))


def test_two_processes_do_not_write_one_run(directory: Path) -> None:
    """Of processes that start the same run at once, one writes it, and the others leave it alone."""
    program = """if True:
        import sys
        from toyspec.core.writing.run_writer import RunWriter
        with RunWriter(sys.argv[1]) as run:
            run.run_start()
            print(run.active, flush=True)
            sys.stdin.read()
            for _ in range(100):
                run.step(loss=0.5)
    """
    command = [sys.executable, "-c", program, str(directory)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    started = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]
    # Each goes on only when all have tried.
    tried = [process.stdout.readline() for process in started if process.stdout]
    answers = [process.communicate(timeout=300) for process in started]
    assert ["False\n", "False\n", "True\n"] == sorted(tried)
    assert 2 == sum(
        "another writer has it open; wait until it closes the file, or write to another directory" in err
        for _, err in answers
    )
    report = check(directory).files[0]
    assert ([], 102) == (report.findings, report.records)
