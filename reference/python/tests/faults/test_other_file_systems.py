"""Faults N: file systems that are not local, in the ways in which they differ. Synthetic: no network takes part."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import toyspec
from faults.methods import TESTS, strace_trouble
from faults.tally import count, scaled, settle
from live_streams import END, START, append, nothing, put_in_place, seen, step, watch
from toyspec.core.errors import StreamRefusedError
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.appending import repair


def emulated_append() -> SystemCalls:
    """Return the calls of a client that has no append: it looks where the end is, and writes there."""

    def open_without_append(path: str, flags: int, mode: int, **at: Any) -> int:
        return os.open(path, flags & ~os.O_APPEND, mode, **at)

    def write_at_the_end(descriptor: int, data: bytes | memoryview) -> int:
        os.lseek(descriptor, 0, os.SEEK_END)
        return os.write(descriptor, data)

    return SystemCalls(open=open_without_append, write=write_at_the_end)


def test_n01_without_append_one_writer_loses_nothing_and_a_second_is_refused(tmp_path: Path) -> None:
    """Where append is emulated, the lock is what keeps records: one writer may go on many times, two may not write."""
    path = str(tmp_path / "events.jsonl")
    lines: list[bytes] = []
    for number in range(scaled(20, 200)):
        file = AppendFile.reopen(path, options=Options(calls=emulated_append()))
        lines.append(b'{"kind":"note","t":%d.0,"text":"%s"}' % (number, b"x" * number))
        file.append(lines[-1])
        with pytest.raises(StreamRefusedError):
            AppendFile.reopen(path, options=Options(calls=emulated_append()))
        count("faults injected")
        file.close()
        if number % 3 == 0:
            os.truncate(path, os.path.getsize(path) + 5)
            assert 5 == repair(path, calls=emulated_append()).fragment_bytes
    assert (0, 0) == settle(lines, lines, [bytes(record.raw) for record in read(path, mode="tail")])


@pytest.mark.parametrize("late", [1, 3, 10])
def test_n02_attributes_that_are_late_are_not_a_loss(
    late: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower that sees an old size for a while calls nothing torn, truncated or gone, and then gives it all."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(START)
    cached: list[os.stat_result] = []
    looks = 0
    real = {name: getattr(os, name) for name in ("stat", "fstat")}

    def remember(name: str) -> None:
        def looked(*arguments: object, **options: object) -> os.stat_result:
            nonlocal looks
            found: os.stat_result = real[name](*arguments, **options)
            if not stat.S_ISREG(found.st_mode) or found.st_ino != cached[0].st_ino:
                return found
            looks += 1
            return cached[0] if looks <= 2 * late else found

        monkeypatch.setattr(os, name, looked)

    cached.append(os.stat(path))
    remember("stat")
    remember("fstat")
    count("faults injected")
    actions = [append(path, step(1)), append(path, step(2)), *[nothing] * (2 * late), append(path, END)]
    assert ["run_start", 1, 2, "run_end", "[ended]"] == seen(watch(path, *actions))


def test_n04_n06_a_file_that_is_uploaded_whole_is_read_whole(tmp_path: Path) -> None:
    """Where a file is seen when it is closed, and each append is another upload: the last one seen has every record."""
    path = tmp_path / "events.jsonl"
    uploads = [START, START + step(1), START + step(1) + step(2), START + step(1) + step(2) + END]
    items = seen(watch(path, nothing, *(put_in_place(path, data) for data in uploads)))
    count("faults injected", len(uploads))
    assert "[gone]" not in items
    parts: list[list[object]] = [[]]
    for item in items:
        if item == "[replaced]":
            parts.append([])
        else:
            parts[-1].append(item)
    assert [["run_start"], ["run_start", 1], ["run_start", 1, 2], ["run_start", 1, 2, "run_end", "[ended]"]] == parts


@pytest.mark.parametrize("error", [errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP])
def test_n05_a_system_without_append_is_reported_at_the_start(
    error: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where a file cannot be opened for appending, one line reports it before the first step, and training goes on."""

    def refuse(path: str, flags: int, mode: int) -> int:
        if flags & os.O_APPEND:
            raise OSError(error, os.strerror(error), path)
        return os.open(path, flags, mode)

    count("faults injected")
    with toyspec.RunWriter(tmp_path / "run", calls=SystemCalls(open=refuse)) as run:
        run.run_start()
        assert 1 == capfd.readouterr().err.count(os.strerror(error))
        for number in range(1, 4):
            run.step(number)
    assert f"toyspec: {tmp_path}/run/events.jsonl: 4 records were not written in total\n" == capfd.readouterr().err
    with pytest.raises(OSError, match=os.strerror(error)):
        toyspec.RunWriter(tmp_path / "run", calls=SystemCalls(open=refuse), on_error="raise").run_start()


def test_n07_a_follower_needs_no_watches(tmp_path: Path) -> None:
    """It looks at intervals: no call of inotify is made, so that none can run out, and remote writes are seen."""
    why = strace_trouble()
    if why:
        pytest.skip(f"system calls cannot be traced here: {why}")
    program = """
        import sys, toyspec
        print([item.kind for item in toyspec.follow(sys.argv[1])])
    """
    path, calls = tmp_path / "events.jsonl", tmp_path / "calls"
    path.write_bytes(START + END)
    watches = "inotify_init,inotify_init1,inotify_add_watch"
    command = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(calls),
        "-e",
        f"trace={watches}",
        "-e",
        f"inject={watches}:error=EMFILE",
    ]
    done = subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(program), str(path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    count("faults injected")
    assert "['run_start', 'run_end', 'ended']" == done.stdout.strip()
    assert "" == calls.read_text()


def test_s08_a_follower_that_is_started_again_begins_at_the_first_record(tmp_path: Path) -> None:
    """No position is saved that could be wrong: whatever became of the file in between, all of it is given."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(START + step(1))
    assert ["run_start", 1] == seen(watch(path))
    with path.open("ab") as file:
        file.write(step(2))
    assert ["run_start", 1, 2] == seen(watch(path))
    path.write_bytes(START + step(7))
    assert ["run_start", 7] == seen(watch(path))
