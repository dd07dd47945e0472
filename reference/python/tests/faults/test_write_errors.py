"""Faults E: the system does not take what is written. The training goes on, and what was acknowledged stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import toyspec
from faults.methods import small_disk, traced, victim
from faults.tally import count, scaled, settle
from files import in_subprocess
from toyspec.core.reading.reader import read

STEPS = 12
CALLS = scaled(4, STEPS + 3)
TRACED = [
    *(f"write:error={error}:when={at}" for error in ("ENOSPC", "EIO") for at in range(1, CALLS, scaled(2, 1))),
    "write:error=EDQUOT:when=3+",
    "write:error=EINTR:when=2..4",
    "fsync:error=EIO:when=1",
    "fsync:error=EIO:when=2",
    "close:error=EIO:when=1",
    *(f"openat:error={error}:when=1+" for error in ("EACCES", "EROFS", "ENOSPC", "EDQUOT", "EMFILE", "ENAMETOOLONG")),
]


def demand(done: subprocess.CompletedProcess[str], stream: Path) -> dict[str, Any]:
    """Demand that the training came to its end, and that its stream has what it believes to be there."""
    count("faults injected")
    assert 0 == done.returncode, done.stderr
    assert "Traceback" not in done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    found: list[bytes] = []
    if stream.exists():
        reading = read(stream)
        found = [_name(record) for record in reading if not _is_about_an_outage(record)]
        assert reading.report.state in {"torn", "complete"}
    order = [
        b"run_start",
        *(name for step in range(1, 5000) for name in (b"step %d" % step, b"note %d" % step)),
        b"run_end",
    ]
    assert (0, 0) == settle(order, [name.encode() for name in said["acknowledged"]], found)
    return said


def _is_about_an_outage(record: toyspec.Record) -> bool:
    return record.kind == "note" and "dropped here: " in record["text"]


def _name(record: toyspec.Record) -> bytes:
    return f"{record.kind} {record['step']}".encode() if "step" in record.value else str(record.kind).encode()


@pytest.mark.parametrize("injection", TRACED)
def test_e01_e05_e06_e07_e08_e13_a_failing_system_call_ends_the_log_alone(injection: str, tmp_path: Path) -> None:
    """Whatever call the kernel fails: training ends as planned, and standard error says what the log lacks."""
    run = tmp_path / "run"
    stream = run / "events.jsonl"
    run.mkdir()
    sync = ["--sync"] if injection.startswith("fsync") else []
    done = victim(str(run), str(STEPS), *sync, prefix=traced(str(stream), injection))
    said = demand(done, stream)
    if "EINTR" in injection:
        assert (0, "") == (said["dropped"], done.stderr)
        assert read(stream).report.state == "complete"
    else:
        assert 1 <= done.stderr.count(str(stream)) <= 3, done.stderr
        assert (said["dropped"] > 0) == ("not written in total" in done.stderr), done.stderr


@pytest.mark.parametrize("fill", [0, 700, 5000])
def test_e02_e01_a_full_disk_leaves_whole_records(fill: int, tmp_path: Path) -> None:
    """On a real disk that fills up, the part that fitted is taken back and everything before it stays."""
    disk = tmp_path / "disk"
    disk.mkdir()
    copy = tmp_path / "copy.jsonl"
    arguments = [str(disk / "run"), "3000", "--fill", str(fill), "--copy", str(copy)]
    done = victim(*arguments, prefix=small_disk(disk, "64k"))
    said = demand(done, copy)
    assert said["dropped"] >= 1
    assert "no space left on device" in done.stderr.lower()
    assert read(copy).report.fragment is None
    assert copy.stat().st_size > 40_000


def test_e12_a_full_disk_at_the_start_is_reported_before_the_training(tmp_path: Path) -> None:
    """Where not even the directory fits, one line reports it and training goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = victim(str(disk / "run"), "3", prefix=small_disk(disk, "4k,nr_inodes=1"))
    said = demand(done, disk / "run/events.jsonl")
    assert [] == said["acknowledged"]
    assert "no space left on device" in done.stderr.lower()


def test_e09_a_caller_that_tries_again_on_a_freed_disk_writes_once(tmp_path: Path) -> None:
    """A record that failed is not written behind the caller's back when there is room again."""
    program = """
        import os, shutil, sys, toyspec
        disk, copy = sys.argv[1:]
        run = toyspec.RunWriter(os.path.join(disk, "run"), on_error="raise")
        run.run_start()
        ballast = os.path.join(disk, "ballast")
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True: file.write(bytes(512))
            except OSError: pass
        failures = 0
        for step in range(1, 500):
            try: run.step(step, loss=0.5)
            except OSError:
                failures += 1
                os.unlink(ballast)
                run.step(step, loss=0.5)
                if failures: break
        run.run_end()
        shutil.copyfile(run.events_path, copy)
        print(failures, step)
    """
    disk, copy = tmp_path / "disk", tmp_path / "copy.jsonl"
    disk.mkdir()
    command = [*small_disk(disk, "64k"), sys.executable, "-c", textwrap.dedent(program), str(disk), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    count("faults injected")
    failures, last = map(int, done.stdout.split())
    assert 1 == failures
    steps = [record["step"] for record in read(copy, mode="strict") if record.kind == "step"]
    assert list(range(1, last + 1)) == steps


@pytest.mark.parametrize("limit", [150, 400, 1000, 3000])
def test_e04_e02_a_limit_of_file_size_leaves_whole_records(limit: int, tmp_path: Path) -> None:
    """Under ``ulimit -f`` the last record is taken back, and the training goes on."""
    program = f"""if True:
        import resource, runpy
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        runpy.run_module("faults.victim", run_name="__main__", alter_sys=True)
    """
    run = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = in_subprocess(program, str(run), "200", env=environment)
    demand(done, run / "events.jsonl")
    assert "file too large" in done.stderr.lower()
    if limit < 200:  # not even run_start fits, and no empty file is left
        assert not run.exists()
        return
    assert (run / "events.jsonl").stat().st_size <= limit
    assert read(run).report.fragment is None


def test_e10_an_error_at_the_exit_of_the_interpreter_is_impossible(tmp_path: Path) -> None:
    """Nothing is left to be written when the interpreter ends: a run that is never closed has all its records."""
    program = "import sys, toyspec; run = toyspec.RunWriter(sys.argv[1]); run.run_start(); run.step(1)"
    done = in_subprocess(program, str(tmp_path / "run"), check=True)
    assert "" == done.stderr
    assert ["run_start", "step"] == [record.kind for record in read(tmp_path / "run")]
