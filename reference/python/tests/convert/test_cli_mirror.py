"""``toyspec mirror`` sends runs on, and says what it could not send."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import toyspec as library
from command_line import command, environment, toyspec, toyspec_within
from conversions import imported, scalars
from files import in_subprocess
from mirror_services import write_steps
from toyspec.convert.mirrors import mirroring


def sent(directory: Path, out: Path) -> dict[str, list[float | None]]:
    """Return the losses of each run that TensorBoard has below *directory*."""
    made = imported(directory, out).runs
    return {run.run_id: [value for _, _, value in scalars(run.target)] for run in made}


def test_backfill_sends_every_run_below_a_directory(tmp_path: Path) -> None:
    """Each run is sent once, however often the command is called."""
    for name in ("a", "b"):
        write_steps(tmp_path / "runs" / name, [3.0, 2.0], ending="completed")
    for _ in range(2):
        done = toyspec("mirror", "--backfill", "runs", "--to", "tensorboard", "--into", "tb", cwd=tmp_path)
        assert (0, b"") == (done.returncode, done.stderr)
        assert [b"4 items, 4 carried unchanged"] * 2 == [line.split(b": ")[1] for line in done.stdout.splitlines()]
    assert {"a": [3.0, 2.0], "b": [3.0, 2.0]} == sent(tmp_path / "tb", tmp_path / "back")


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["runs", "--to", "comet"], b"invalid choice: 'comet'"),
        (["--backfill", "nothing", "--to", "tensorboard"], b"no run in the directory or below"),
        (["--backfill", "log.jsonl", "--to", "tensorboard"], b"`toyspec import` makes a toy/v1 run of it"),
    ],
)
def test_wrong_usage_says_what_to_do(words: list[str], fact: bytes, tmp_path: Path) -> None:
    """Nothing is sent, and the exit status is 2."""
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    done = toyspec_within("mirror", *words, cwd=tmp_path)
    assert (2, True) == (done.returncode, fact in done.stderr)


def test_a_tracker_that_does_not_answer_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exit status 1: something is left to send."""
    write_steps(tmp_path / "runs" / "a", [3.0], ending="completed")
    monkeypatch.setattr(mirroring, "mirror_run", lambda *_, **__: "abandoned")
    done = toyspec_within("mirror", "--backfill", "runs", "--to", "tensorboard", "--into", "tb", cwd=tmp_path)
    assert (1, True) == (done.returncode, b"tensorboard does not answer; call it again later" in done.stderr)


@pytest.mark.posix
def test_directory_is_followed_until_it_is_interrupted(tmp_path: Path) -> None:
    """Runs that begin later are sent too, and Ctrl-C sends what is there before it ends."""
    words = command("mirror", "runs", "--to", "tensorboard", "--into", "tb")
    write_steps(tmp_path / "runs" / "a", [1.0], ending="completed")
    with subprocess.Popen(words, cwd=tmp_path, env=environment()) as process:
        with library.start_run(tmp_path / "runs", run_id="b") as run:
            run.step(loss=2.0)
        deadline = time.monotonic() + 300
        while len(list(tmp_path.glob("tb/*/*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(300)
    assert {"a": [1.0], "b": [2.0]} == sent(tmp_path / "tb", tmp_path / "back")


def test_run_starts_its_own_mirrors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with a mirror is sent when it has ended, from a process of its own."""
    monkeypatch.chdir(tmp_path)
    mirror = library.Mirror(to="tensorboard", into=str(tmp_path / "tb"), select=library.Selecting(metrics=["loss"]))
    with library.start_run("runs", run_id="a", companions=[mirror]) as run:
        run.step(loss=2.5, lr=0.1)
    assert {"a": [2.5]} == sent(tmp_path / "tb", tmp_path / "back")


@pytest.mark.posix
def test_mirror_outlives_a_training_that_is_killed(tmp_path: Path) -> None:
    """After SIGKILL everything that was committed is sent."""
    program = """
import os, signal, toyspec
run = toyspec.start_run("runs", run_id="a", companions=[toyspec.Mirror(to="tensorboard", into="tb")])
for step in range(50):
    run.step(loss=float(step))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = in_subprocess(program, cwd=tmp_path)
    assert -signal.SIGKILL == done.returncode
    deadline = time.monotonic() + 300
    states = tmp_path / "runs" / ".mirrors"
    while not any('"rows":50' in path.read_text() for path in states.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {"a": [float(step) for step in range(50)]} == sent(tmp_path / "tb", tmp_path / "back")


def test_mirror_that_cannot_run_stops_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where no process can be started, one message reports it, and the run is complete."""
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    with library.start_run(tmp_path, run_id="a", companions=[library.Mirror(to="tensorboard")]) as run:
        run.step(loss=2.5)
    assert 1 == capfd.readouterr().err.count("could not be started (No such file or directory")
    assert "complete" == library.check(tmp_path).files[0].state
