"""Faults C: more than one process or thread at one stream."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import toyspec
from faults.tally import count
from live_streams import END, START, append, seen, step, watch
from toyspec.core.errors import StreamRefusedError
from toyspec.core.writing.append_file import AppendFile


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


def test_r02_an_inode_that_is_used_again_hides_nothing(tmp_path: Path) -> None:
    """Deleted and made again, many times: each new file is reported and read, whatever inode it gets."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(START + step(0))

    def renew(number: int) -> None:
        path.unlink()
        path.write_bytes(START + step(number))

    count("faults injected", 50)
    items = watch(path, *(lambda number=number: renew(number) for number in range(1, 51)))
    assert ["run_start", 0, *(item for number in range(1, 51) for item in ("[replaced]", "run_start", number))] == seen(
        items
    )


def test_r08_a_compressed_neighbour_is_not_taken_for_the_stream(tmp_path: Path) -> None:
    """A rotated file that was compressed beside the stream changes nothing for its follower."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(START)
    items = watch(
        path, lambda: (tmp_path / "events.jsonl.1.gz").write_bytes(b"\x1f\x8b" + bytes(20)), append(path, END)
    )
    assert ["run_start", "run_end", "[ended]"] == seen(items)


def test_r10_a_symbolic_link_that_is_turned_is_a_rotation(tmp_path: Path) -> None:
    """The directory of the current run is often a link; the follower goes where it points."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").write_bytes(START + step(1 if name == "one" else 2))
    current = tmp_path / "current"
    current.symlink_to("one")

    def turn() -> None:
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").replace(current)

    count("faults injected")
    assert ["run_start", 1, "[rotated]", "run_start", 2] == seen(watch(current, turn))
