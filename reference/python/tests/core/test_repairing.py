"""Repair cuts what was never committed, keeps it, and does nothing else."""

from __future__ import annotations

import contextlib
import errno
import gzip
import itertools
import os
import threading
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from files import content
from toyspec.core.errors import StreamMissingError, StreamRefusedError, StreamUnreadableError
from toyspec.core.writing.append_file import AppendFile
from toyspec.core.writing.appending import Repair, repair
from toyspec.testing import FailingCalls

RECORDS = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n\n{"kind":"gpu"}\n'


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """Return the path of a stream of two records and half a third."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(RECORDS + b'{"kind":')
    return path


def test_a_fragment_is_cut_and_kept(stream: Path) -> None:
    """The stream ends in its last line, the fragment is beside it, and a second repair finds nothing."""
    expected = Repair(
        path=str(stream),
        change="cut",
        records=2,
        committed_bytes=len(RECORDS),
        fragment_bytes=8,
        torn_path=f"{stream}.torn-{len(RECORDS)}",
    )
    assert expected == repair(stream)
    assert (RECORDS, b'{"kind":') == (stream.read_bytes(), content(f"{stream}.torn-{len(RECORDS)}"))
    again = repair(stream.parent)
    assert ("none", 0, None) == (again.change, again.fragment_bytes, again.torn_path)
    assert 2 == len(os.listdir(stream.parent))


@pytest.mark.parametrize(
    ("name", "data", "fact"),
    [
        ("events.jsonl", gzip.compress(b"x" * 500), "gzip data"),
        ("log.jsonl", b'{"type":"user","message":"hi"}\n{"type', "type, message"),
        (
            "metrics.csv",
            b"epoch,step,train_loss\n0,1,2.5\n0,2,",
            "(lightning-csv: CSV with steps and epochs)",
        ),
        ("log.jsonl", b'{"_step": 1, "_runtime": 2.5, "loss": 1.5}\n{"_st', "`toyspec import` makes a run"),
        ("run-a.wandb", b":W&B\xe1\xbe\x00", "it was not changed; read this file with `toyspec import`"),
    ],
)
def test_a_file_of_another_format_is_left_alone(tmp_path: Path, name: str, data: bytes, fact: str) -> None:
    """Nothing is cut off what is not ours, and the error says what it is."""
    (tmp_path / name).write_bytes(data)
    for dry_run in (True, False):
        with pytest.raises(StreamRefusedError) as caught:
            repair(tmp_path / name, dry_run=dry_run)
        assert "foreign" == caught.value.reason
        assert fact.lower() in str(caught.value).lower()
    assert [(name, data)] == [(path.name, path.read_bytes()) for path in tmp_path.iterdir()]


def test_no_stream_is_an_error(tmp_path: Path) -> None:
    """A path without a stream, and what is not a file, raise."""
    for path in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(StreamMissingError):
            repair(path)
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(StreamUnreadableError, match="not a regular file"):
        repair(tmp_path)
    assert ["events.jsonl"] == os.listdir(tmp_path)


@pytest.mark.parametrize("effect", ["error", "short-write"])
@pytest.mark.parametrize("lasting", ["once", "for-ever"])
def test_no_failing_call_loses_a_byte(
    tmp_path: Path, lasting: Literal["once", "for-ever"], effect: Literal["error", "short-write"]
) -> None:
    """Whichever call fails, every byte is in the stream or beside it, and a second repair completes the first."""
    for at in itertools.count(1):
        path = tmp_path / str(at) / "events.jsonl"
        path.parent.mkdir()
        path.write_bytes(RECORDS + b'{"kind":')
        failing = FailingCalls(at=at, error=errno.ENOSPC, effect=effect, lasting=lasting)
        with contextlib.suppress(OSError):
            repair(path, calls=failing.calls)
        aside = f"{path}.torn-{len(RECORDS)}"
        assert RECORDS + b'{"kind":' in (path.read_bytes(), path.read_bytes() + content(aside))
        repair(path)
        assert (RECORDS, b'{"kind":') == (path.read_bytes(), content(aside))
        if not failing.was_hit:
            break
    assert at > 10


@given(
    st.lists(st.sampled_from([b'{"kind":"gpu","t":1}\n', b"\n", b'{"kind":', b"\0\0", b"\xff", b'{"a":1}']), max_size=6)
)
def test_repair_never_removes_a_committed_byte(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    """Whatever the bytes, the stream keeps all up to its last LF, or all of them when it is refused."""
    path = tmp_path_factory.mktemp("r") / "events.jsonl"
    data = b"".join(pieces)
    path.write_bytes(data)
    committed = data[: data.rfind(b"\n") + 1]
    try:
        result = repair(path)
    except StreamRefusedError:
        assert data == path.read_bytes()
        return
    assert committed == path.read_bytes()
    assert data[len(committed) :] == (b"" if result.torn_path is None else content(result.torn_path))
    assert "none" == repair(path).change


def test_a_repair_against_a_writer_destroys_nothing(tmp_path: Path) -> None:
    """However often a live stream is repaired, the lock keeps every record that the writer acknowledged."""
    path = str(tmp_path / "events.jsonl")
    stop = threading.Event()

    def repair_on_and_on() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError, StreamMissingError):
                repair(path)

    thread = threading.Thread(target=repair_on_and_on)
    thread.start()
    try:
        file = None
        while file is None:
            with contextlib.suppress(OSError):
                file = AppendFile.reopen(path)
        for number in range(2000):
            file.append(b'{"kind":"gpu","t":%d}' % number)
        file.close()
    finally:
        stop.set()
        thread.join()
    assert 2000 == content(path).count(b"\n")
    assert ["events.jsonl"] == os.listdir(tmp_path)


@pytest.mark.parametrize(
    "data", [b'{"a":1,"b":2}', b"1,2,3", b'{"epoch": 1, "loss": [', b'{"kind":1}', b'{"step":1,"loss":2}']
)
@pytest.mark.parametrize("name", ["x.json", "events.jsonl"])
def test_a_file_that_is_not_proven_to_be_a_stream_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    """Without a whole record, the bytes must begin as a record of toyspec; else the file stays unchanged."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(StreamRefusedError, match="not changed"):
        repair(path)
    assert (data, [name]) == (path.read_bytes(), os.listdir(tmp_path))
