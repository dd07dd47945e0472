"""``toyspec capture`` passes every byte on, and writes a run from the lines that have numbers."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import command, environment, toyspec, toyspec_within
from logged_runs import events, findings
from strategies import streams
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.writing.environment import TrainingProcess
from toyspec.integrations.commands.capture import Capture
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun

PROGRAM = """
import sys
for step in range(1, 4):
    print(f"step {step}/3 | loss: {2.5 / step:.4f} | lr 3.00e-04", flush=True)
print("saved", flush=True)
sys.stdout.buffer.write(b"no line feed \\xff")
sys.stdout.buffer.flush()
sys.exit(int(sys.argv[1]))
"""


def values(root: Path) -> list[tuple[int | None, dict[str, Any]]]:
    """Return step and values of what was captured."""
    return [(event.get("step"), event["values"]) for event in events(root) if event["kind"] == "scalars"]


@pytest.mark.parametrize(("status", "reason"), [(0, "completed"), (3, "errored"), (130, "interrupted")])
def test_command_keeps_its_output_and_its_status(status: int, reason: str, tmp_path: Path) -> None:
    """The bytes are those that the program wrote, and the run ends as the program ended."""
    plain = subprocess.run([sys.executable, "-c", PROGRAM, str(status)], capture_output=True, check=False)
    done = toyspec("capture", "--", sys.executable, "-c", PROGRAM, str(status), cwd=tmp_path)
    assert (plain.stdout, status) == (done.stdout, done.returncode)
    assert [(step, {"loss": round(2.5 / step, 4), "lr": 0.0003}) for step in (1, 2, 3)] == values(tmp_path)
    assert reason == events(tmp_path)[-1]["reason"]
    assert [] == findings(tmp_path)


def test_filter_reads_standard_input(tmp_path: Path) -> None:
    """JSON lines with a step are read unchanged; other lines pass."""
    lines = b'start\n{"step": 1, "loss": 2.5}\n{"step": 2, "loss": NaN}\nend\n'
    done = toyspec("capture", "--run-id", "demo", cwd=tmp_path, stdin=lines)
    assert (lines, 0) == (done.stdout, done.returncode)
    assert [(1, {"loss": 2.5}), (2, {"loss": None})] == values(tmp_path)


def test_pattern_names_the_numbers(tmp_path: Path) -> None:
    """Named groups are the values; ``step`` and ``epoch`` are known."""
    pattern = r"epoch (?P<epoch>\d+) at (?P<step>\d+): (?P<loss>\S+)"
    lines = b"begin\nepoch 2 at 10: 0.5\nstep 11 loss=0.4\n"
    done = toyspec("capture", "--pattern", pattern, cwd=tmp_path, stdin=lines)
    assert 0 == done.returncode
    (event,) = [event for event in events(tmp_path) if event["kind"] == "scalars"]
    assert (10, 2, {"loss": 0.5}) == (event["step"], event["epoch"], event["values"])


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--pattern", "("], b"not a regular expression"),
        (["--pattern", "loss"], b"names no part"),
        (["--dialect", "nope"], b"unknown dialect 'nope'"),
        (["--pattern", "(?P<a>.)", "--dialect", "sb3"], b"exclude each other"),
    ],
)
def test_wrong_usage_is_refused_before_anything_starts(arguments: list[str], fact: bytes, tmp_path: Path) -> None:
    """No run and no program is started."""
    done = toyspec_within("capture", *arguments, "--", sys.executable, "-c", "print('started')", cwd=tmp_path)
    assert (2, b"") == (done.returncode, done.stdout)
    assert fact in done.stderr
    assert [] == list(tmp_path.iterdir())


def test_command_that_makes_no_run_says_why(tmp_path: Path) -> None:
    """Output without numbers, and a command that is not there, whose status is a shell's."""
    done = toyspec("capture", cwd=tmp_path, stdin=b"hello\n")
    assert (0, b"hello\n") == (done.returncode, done.stdout)
    assert b"see --pattern" in done.stderr
    done = toyspec("capture", "--", "./nope", cwd=tmp_path)
    assert 127 == done.returncode
    assert b"./nope: No such file" in done.stderr
    assert [] == list(tmp_path.iterdir())


@pytest.mark.posix
def test_signal_reaches_the_program(tmp_path: Path) -> None:
    """The program decides how it ends, and the run says how it ended."""
    program = "import time\nprint('step 1 loss=2.5', flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        command("capture", "--", sys.executable, "-c", program),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert 128 + signal.SIGTERM == process.wait(300)
    assert "errored" == events(tmp_path)[-1]["reason"]


def test_reader_that_leaves_does_not_stop_the_log(tmp_path: Path) -> None:
    """After ``| head -1``, the rest is logged all the same."""
    lines = b"".join(b"step %d loss=2.5\n" % step for step in range(1, 6001))
    with subprocess.Popen(
        command("capture"), cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(lines)
        process.stdin.close()
        assert 0 == process.wait(300)
    assert 6000 == len(values(tmp_path))


@given(data=streams() | st.binary())
def test_any_bytes_are_taken(data: bytes) -> None:
    """Whatever a program prints, nothing is raised."""
    capture = Capture(TrainingRun(RunOptions(), Start(process=TrainingProcess(1, 2, "test"))), DialectChoice())
    capture.feed(data)
    capture.end("completed")
