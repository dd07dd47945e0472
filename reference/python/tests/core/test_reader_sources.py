"""Tests of what can be read, and of what reading costs."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from files import in_subprocess
from readings import account, drained
from toyspec.core.errors import DamagedStreamError, StreamMissingError, StreamUnreadableError
from toyspec.core.reading.reader import Mode, read
from toyspec.core.reading.records import Record

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n'
STEP = b'{"kind":"step","t":1.0,"step":1,"loss":1.5}\n'
END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'
RUN = START + STEP + END
MODES: tuple[Mode, ...] = ("strict", "tail", "prefix", "salvage")


def test_run_directory_stands_for_its_stream(tmp_path: Path) -> None:
    """events.jsonl comes before metrics.jsonl, and the name is part of every message."""
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    assert "metrics/v1" == read(tmp_path).report.profile
    (tmp_path / "events.jsonl").write_bytes(b"{\n")
    with pytest.raises(DamagedStreamError) as caught:
        _ = read(str(tmp_path)).report
    assert str(tmp_path / "events.jsonl") == caught.value.path


def test_manifest_beside_the_stream_decides_when_nothing_else_does(tmp_path: Path) -> None:
    """run.json with run_id makes a stream that says nothing itself kaun/v1; anything unreadable is ignored."""
    stream = tmp_path / "events.jsonl"
    stream.write_bytes(b'{"a":1}\n')
    manifests = ((b"{", None), (b"{}", None), (b'{\n"run_id":"a"}\n', "kaun/v1"), (b'{"run_id":"a","kind":1}', None))
    for text, profile in manifests:
        (tmp_path / "run.json").write_bytes(text)
        assert profile == read(stream).report.profile
    stream.write_bytes(b'{"kind":"note","t":1}\n')
    assert "toy/v1" == read(stream).report.profile


@pytest.mark.parametrize("name", ["no.jsonl", "file/below", "nul\x00byte", "surrogate\ud800"])
def test_missing_path_is_one_clear_error(tmp_path: Path, name: str) -> None:
    """Whatever is wrong with a path, the message names it and nothing is left open."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((StreamMissingError, StreamUnreadableError)) as caught:
        read(os.path.join(tmp_path, name))
    assert os.path.join(tmp_path, name) == caught.value.path
    assert "\x00" not in str(caught.value)


def test_directory_without_a_stream_is_missing_one(tmp_path: Path) -> None:
    """An empty directory is not an empty stream."""
    with pytest.raises(StreamMissingError, match=r"neither events\.jsonl nor metrics\.jsonl"):
        read(tmp_path)


def test_directory_that_may_not_be_entered_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell what a directory holds, nothing is said to be missing."""
    run = str(tmp_path)
    real = os.stat

    def refused(path: str, **options: Any) -> os.stat_result:
        if str(path).startswith(os.path.join(run, "")):
            raise PermissionError(13, "Permission denied", path)
        return real(path, **options)

    monkeypatch.setattr(os, "stat", refused)
    monkeypatch.setattr(os, "lstat", refused)
    with pytest.raises(StreamUnreadableError, match=r"events\.jsonl: Permission denied"):
        read(run)


@pytest.mark.posix
def test_fifo_in_a_run_directory_is_refused_without_waiting(tmp_path: Path) -> None:
    """Only a person who names a FIFO wants to wait for it."""
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(StreamUnreadableError, match="a FIFO, not a regular file"):
        read(tmp_path)


@pytest.mark.posix
def test_named_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    """A FIFO gives what its writer gives, in every mode with an exact account."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    data = START + b"{\n" + RUN * 2000
    writer = threading.Thread(target=fifo.write_bytes, args=(data,))
    writer.start()
    records, report = drained(fifo, mode="prefix")
    writer.join()
    assert (1, len(data), "stopped") == (len(records), report.size, report.gaps[-1].reason)


@pytest.mark.posix
def test_pipe_object_stays_open_and_is_not_read_twice() -> None:
    """A file object belongs to its owner; the latest view of a pipe is misuse."""
    source, sink = os.pipe()
    with os.fdopen(source, "rb") as pipe, os.fdopen(sink, "wb") as writer:
        writer.write(RUN)
        writer.close()
        with pytest.raises(ValueError, match="reads the source twice"):
            read(pipe, attempts="latest")
        assert "complete" == read(pipe).report.state
        assert not pipe.closed


@given(st.integers(0, 5), st.sampled_from(MODES))
def test_file_object_is_read_from_where_it_stands(skipped: int, mode: Mode) -> None:
    """What lies before the position is not part of the stream."""
    file = io.BytesIO(b"#" * skipped + RUN + b"{\n" + RUN)
    file.seek(skipped)
    _, report = drained(file, mode=mode, attempts="latest")
    assert len(RUN) * 2 + 2 == report.size == sum(account(report))
    assert not file.closed


def test_misuse_is_refused_at_once() -> None:
    """Arguments that make no sense raise before anything is read."""
    with pytest.raises(ValueError, match="mode is 'lenient'"):
        read(RUN, mode="lenient")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="profile is 'toy/v2'"):
        read(RUN, profile="toy/v2")
    with pytest.raises(ValueError, match="attempts is 'some'"):
        read(RUN, attempts="some")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="source is a int"):
        read(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="open it in binary mode"):
        list(read(io.StringIO("{}\n")))  # type: ignore[arg-type]


def test_input_error_is_a_stream_error() -> None:
    """A device that fails halfway gives the records before it and a typed exception."""

    class Failing(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read1(size)

    reading = read(Failing(RUN))
    records: list[Record] = []
    with pytest.raises(StreamUnreadableError, match=f"Input/output error after byte {len(RUN)}"):
        records.extend(reading)
    with pytest.raises(ValueError, match="closed before its end"):
        _ = reading.report


def test_file_that_grows_while_it_is_read_is_accounted_for(tmp_path: Path) -> None:
    """A stop measures the file as it is at that moment."""
    stream = tmp_path / "events.jsonl"
    stream.write_bytes(START + b"{\n")
    reading = read(stream, mode="prefix")
    next(reading)
    with stream.open("ab") as file:
        file.write(RUN * 3)
    assert len(START) + 2 + 3 * len(RUN) == reading.report.size == sum(account(reading.report))


def test_file_is_closed_at_the_end_and_by_leaving(tmp_path: Path) -> None:
    """No descriptor outlives the reading, read to the end, left early or never begun."""
    stream = tmp_path / "events.jsonl"
    stream.write_bytes(RUN * 5000)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    list(read(stream))
    with read(stream) as reading:
        next(reading)
    read(stream)
    next(read(stream))
    with pytest.raises(ValueError, match="max_line_bytes"):
        list(read(stream, max_line_bytes=0))
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert before == after


# Bounds.


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs the peak of a process")
def test_million_lines_stay_under_64_mib(tmp_path: Path) -> None:
    """Memory does not grow with the stream, in a process of its own."""
    stream = tmp_path / "events.jsonl"
    with stream.open("wb") as file:
        for _ in range(100):
            file.write(STEP * 10_000)
    program = (
        "import re, sys; from toyspec.core.reading.reader import read\n"
        "n = sum(record['step'] for record in read(sys.argv[1], attempts='latest'))\n"
        "print(n, re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    done = in_subprocess(program, str(stream))
    count, peak_kib = map(int, done.stdout.split())
    assert 1_000_000 == count
    assert peak_kib < 64 * 1024
