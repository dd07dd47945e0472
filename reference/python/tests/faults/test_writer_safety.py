"""What the writer of this package must survive: its column in the table of faults by language, row by row."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from faults.methods import TESTS, small_disk, traced
from faults.tally import count
from files import content
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import FailingCalls

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n'
STEP = b'{"kind":"step","t":1.0,"step":1,"loss":0.5}\n'
LONG = b'{"kind":"note","t":2.0,"text":"' + b"x" * 200_000
RESUME = """
    import sys, toyspec
    run = toyspec.RunWriter(sys.argv[1], run_id="r", exist="resume")
    if run.active:
        run.run_resume(1)
        run.step(2, loss=0.25)
    run.close()
"""


def bundle(folder: Path, data: bytes) -> Path:
    """Make a bundle and return the path of its stream."""
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(data)
    return folder / "events.jsonl"


def resume(folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Resume the run in *folder* in a process of its own, under a command or an environment that makes trouble."""
    prefix, env = options.get("prefix", []), {**os.environ, "PYTHONPATH": str(TESTS), **options.get("env", {})}
    command = [*prefix, sys.executable, "-c", textwrap.dedent(RESUME), str(folder)]
    count("faults injected")
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def beside(folder: Path) -> list[bytes]:
    """Return the side files of the stream in *folder*."""
    return [path.read_bytes() for path in sorted(folder.glob("events.jsonl.torn-*"))]


def writer(folder: Path, **options: Any) -> RunWriter:
    """Return a writer that raises."""
    return RunWriter(folder, run_id="r", on_error="raise", **options)


@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_kill_while_a_long_fragment_is_moved_loses_nothing(call: str, at: int, tmp_path: Path) -> None:
    """At every moment one file has the fragment whole, and the next attempt completes what the killed one began."""
    folder = tmp_path / "r"
    stream = bundle(folder, START + STEP + LONG)
    side_file = f"{stream}.torn-{len(START + STEP)}"
    prefix = traced(side_file, f"{call}:signal=SIGKILL:when={at}")
    resume(folder, prefix=prefix)
    assert LONG in [*beside(folder), stream.read_bytes()[len(START + STEP) :]]
    assert 0 == resume(folder).returncode
    assert LONG in beside(folder)
    assert ["run_resume", "step"] == [record.kind for record in read(stream)][-2:]


def test_a_disk_that_is_nearly_full_keeps_the_fragment_where_it_is(tmp_path: Path) -> None:
    """A side file that does not fit is removed, the stream stays as it was, and the lock is free again."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f"""
        import os, shutil, sys
        folder = os.path.join({str(disk)!r}, "r")
        os.mkdir(folder)
        data = {(START + STEP)!r} + b"x" * {len(LONG)}
        open(folder + "/events.jsonl", "wb").write(data)
        sys.argv[1:] = [folder]
        for _ in range(2):
            exec({textwrap.dedent(RESUME)!r})
        assert ["events.jsonl"] == os.listdir(folder), os.listdir(folder)
        assert data == open(folder + "/events.jsonl", "rb").read()
    """
    command = [*small_disk(disk, "300k"), sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    count("faults injected")
    assert 0 == done.returncode, done.stderr
    assert 2 == done.stderr.count("No space left on device; logging stops")


def test_the_name_of_the_side_file_is_on_the_disk_before_the_cut(tmp_path: Path) -> None:
    """File, directory, then the cut, then file and directory again."""
    bundle(tmp_path / "r", START + b"part")
    counting = FailingCalls(at=0, error=0)
    writer(tmp_path / "r", exist="resume", calls=counting.calls).close()
    made = [call for call in counting.made if call != "read"]
    cut = made.index("ftruncate")
    assert ["write", "fsync", "close", "fsync", "close"] == made[cut - 5 : cut]
    assert ["fsync", "open", "fsync", "close"] == made[cut + 1 : cut + 5]


def test_e01_a_writer_that_raises_says_in_the_stream_what_it_lacks(tmp_path: Path) -> None:
    """A caller that goes on after the error leaves a note with the number of records."""
    failing = FailingCalls(at=3, error=errno.ENOSPC, only="write")
    run = writer(tmp_path / "r", calls=failing.calls)
    run.run_start()
    run.step(1)
    with pytest.raises(OSError, match="No space left"):
        run.step(2)
    run.step(3)
    run.run_end()
    assert b'"text":"1 record was dropped here: No space left on device"' in content(run.events_path)
    assert 1 == run.dropped


def test_e06_e11_a_failed_sync_ends_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is acknowledged after it, and run_end least of all."""
    failing = FailingCalls(at=3, error=errno.EIO, only="fsync")
    run = RunWriter(tmp_path / "r", run_id="r", calls=failing.calls)
    run.run_start()
    run.step()
    run.run_end()
    assert (False, 1) == (run.active, run.dropped)
    assert "fsync failed (Input/output error); lines already written may be lost" in capfd.readouterr().err
    assert 3 == failing.made.count("fsync")


@pytest.mark.parametrize(("error", "survives"), [(errno.EIO, False), (errno.EINVAL, True)])
def test_a_directory_that_cannot_be_synced(error: int, survives: bool, tmp_path: Path) -> None:
    """A failure is one; a file system that has no such thing is none."""
    failing = FailingCalls(at=2, error=error, only="fsync")
    run = writer(tmp_path / "r", calls=failing.calls)
    with contextlib.nullcontext() if survives else pytest.raises(OSError, match="Input/output"):
        run.run_start()
    assert survives == run.active


@pytest.mark.parametrize("call", ["write", "fsync", "open", "ftruncate"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_every_error_names_a_path(call: str, error: int, tmp_path: Path) -> None:
    """Whoever wants errors learns which file they are about."""
    bundle(tmp_path / "r", START + b"part")
    failing = FailingCalls(at=1, error=error, only=call, lasting="for-ever")
    with (
        pytest.raises(OSError, match=r".") as caught,
        writer(tmp_path / "r", exist="resume", calls=failing.calls) as run,
    ):
        run.run_resume(0)
    assert str(tmp_path) in str(caught.value)


def test_one_record_is_one_write(tmp_path: Path) -> None:
    """However long it is."""
    sizes: list[int] = []

    def write(descriptor: int, data: bytes | memoryview) -> int:
        sizes.append(len(data))
        return os.write(descriptor, data)

    with writer(tmp_path / "r", calls=SystemCalls(write=write)) as run:
        run.run_start()
        run.note("x" * 300_000)
    assert (3, True) == (len(sizes), sizes[1] > 300_000)


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "step", "step": 2},
        {"kind": "note", "text": "x"},
        {"kind": "run_end", "reason": "completed"},
        {"kind": "own"},
    ],
)
def test_run_resume_comes_first(event: dict[str, Any], tmp_path: Path) -> None:
    """In a resumed stream nothing else is written before it."""
    stream = bundle(tmp_path / "r", START + STEP)
    run = writer(tmp_path / "r", exist="resume")
    with pytest.raises(InvalidEventError, match="write run_resume first"):
        run.write(event)
    assert START + STEP == stream.read_bytes()


@pytest.mark.parametrize(
    "value", [dict.fromkeys(["\ud800", "\udfff"], 1), {1: "a", "1": "b"}, {"n": 10**400}, {"a": {None: 1, "null": 2}}]
)
def test_a_value_that_would_lose_something_is_refused(value: dict[Any, Any], tmp_path: Path) -> None:
    """Two keys that are written alike, and an integer that most readers take as infinity."""
    run = writer(tmp_path / "r")
    with pytest.raises(InvalidEventError, match=r"two keys that are written|within binary64"):
        run.run_start(config=value)
    run.close()
    assert not (tmp_path / "r").exists()
