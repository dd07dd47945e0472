"""Faults C: more than one process or thread at one stream."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import toyspec
from faults.tally import count
from toyspec.core.errors import StreamRefusedError
from toyspec.core.writing.append_file import AppendFile
from toyspec.core.writing.appending import repair


def test_c05_reading_its_own_stream_does_not_give_up_the_lock(tmp_path: Path) -> None:
    """A process that opens and closes the stream that it writes still holds it."""
    path = str(tmp_path / "events.jsonl")
    file = AppendFile.create(path)
    file.append(b'{"kind":"note","t":0.0,"text":""}')
    for _ in range(3):
        assert 1 == toyspec.read(path).report.records
        Path(path).read_bytes()
    count("faults injected")
    with pytest.raises(StreamRefusedError):
        AppendFile.reopen(path)
    file.close()


def test_c03_c06_children_that_fork_and_leave_write_nothing_twice(tmp_path: Path) -> None:
    """Workers forked in the middle of logging, while a thread logs too, add no record, whatever way they leave."""
    program = """
        import os, sys, threading, toyspec
        run = toyspec.RunWriter(sys.argv[1])
        run.run_start()
        over = threading.Event()
        def chatter():
            while not over.is_set():
                run.note("from a thread")
        thread = threading.Thread(target=chatter)
        thread.start()
        for step in range(1, 41):
            run.step(step)
            child = os.fork()
            if child == 0:
                run.step(step)
                if step % 2:
                    os._exit(0)
                sys.exit(0)
            os.waitpid(child, 0)
        over.set()
        thread.join()
        run.run_end()
    """
    run = tmp_path / "run"
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), str(run)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    count("faults injected", 40)
    steps = [record["step"] for record in toyspec.read(run, mode="strict") if record.kind == "step"]
    assert list(range(1, 41)) == steps


def test_c04_a_lock_whose_owner_was_killed_is_free_although_its_child_lives(tmp_path: Path) -> None:
    """A worker that outlives its killed parent does not keep the restarted job out."""
    program = """
        import os, signal, sys, time, toyspec
        run = toyspec.RunWriter(sys.argv[1])
        run.run_start()
        if os.fork() == 0:
            os.write(1, b"%d" % os.getpid())
            os.close(1)
            time.sleep(60)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    run = tmp_path / "run"
    command = [sys.executable, "-c", textwrap.dedent(program), str(run)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=300)
    child = int(done.stdout)
    try:
        count("kills")
        with toyspec.RunWriter(run, exist="resume", on_error="raise") as again:
            again.run_resume(0)
    finally:
        os.kill(child, 9)
    assert ["run_start", "run_resume", "run_end"] == [record.kind for record in toyspec.read(run)]


def test_c07_a_repair_is_refused_while_a_part_is_being_written(tmp_path: Path) -> None:
    """What is after the last LF of a live stream belongs to its writer."""
    path = tmp_path / "events.jsonl"
    file = AppendFile.create(str(path))
    file.append(b'{"kind":"note","t":0.0,"text":""}')
    with path.open("ab") as part:
        part.write(b'{"kind":')
    before = path.read_bytes()
    for dry_run in (True, False):
        with pytest.raises(StreamRefusedError):
            repair(path, dry_run=dry_run)
    assert before == path.read_bytes()
    file.close()
    assert "cut" == repair(path).change


def test_c09_a_writer_never_glues(tmp_path: Path) -> None:
    """Every way to open a torn stream sets its fragment aside, or leaves the stream alone."""
    torn = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run"}\n{"kind":"st'
    for exist in ("replace", "resume"):
        run = tmp_path / exist / "run"
        run.mkdir(parents=True)
        (run / "events.jsonl").write_bytes(torn)
        with toyspec.RunWriter(run, exist=exist) as writer:
            if exist == "resume":
                writer.run_resume(0)
            else:
                writer.run_start()
            writer.step(1)
        count("faults injected")
        assert "complete" == toyspec.read(run, mode="strict").report.state
