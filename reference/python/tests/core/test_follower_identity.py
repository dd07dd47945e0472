"""Tests of following a path whose file is rotated, cut, replaced, deleted or out of reach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from live_streams import START, append, nothing, put_in_place, rewrite, seen, step, watch
from toyspec.core.errors import StreamUnreadableError
from toyspec.core.reading.follower import TailEvent, follow
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """Return the path of a stream that does not exist yet."""
    return tmp_path / "events.jsonl"


def test_renamed_file_is_read_while_its_name_is_free(stream: Path) -> None:
    """Between rename and creation, what is written to the old file still counts."""
    stream.write_bytes(START)
    old = stream.with_name("old")
    items = watch(stream, lambda: stream.rename(old), append(old, step(1)), append(stream, START + step(2)))
    assert ["run_start", "[gone]", 1, "[rotated]", "run_start", 2] == seen(items)


def test_file_that_moves_away_and_back_is_the_same(stream: Path) -> None:
    """No record is given twice."""
    stream.write_bytes(START)
    old = stream.with_name("old")
    items = watch(stream, lambda: stream.rename(old), lambda: old.rename(stream), append(stream, step(1)))
    assert ["run_start", "[gone]", 1] == seen(items)


def test_deleted_run_directory_is_gone_and_may_come_back(tmp_path: Path) -> None:
    """The directory is looked for like the file."""
    run = tmp_path / "r"
    stream = run / "events.jsonl"
    run.mkdir()
    stream.write_bytes(START)

    def remove() -> None:
        stream.unlink()
        run.rmdir()

    items = watch(run, remove, run.mkdir, append(stream, START))
    assert ["run_start", "[gone]", "[replaced]", "run_start"] == seen(items)


OTHER = START.replace(b'"r"', b'"s"')


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (b"", "[truncated]"),
        (START, "[truncated]"),
        (b"\x00" * 20, "[truncated]"),
        (OTHER + step(1), "[replaced]"),
        (OTHER + step(2) * 9, "[replaced]"),
        (START + step(2) * 9, "[replaced]"),
    ],
)
def test_file_that_was_cut_starts_again(stream: Path, data: bytes, event: str) -> None:
    """A file that was cut is seen as such, also when it grew beyond its old size before the next look."""
    stream.write_bytes(START + step(1) + b"{")
    items = watch(stream, rewrite(stream, data), append(stream, b"\n" + step(3)))
    assert ["run_start", 1, event] == seen(items)[:3]
    assert list(read(stream, mode="salvage")) == [item for item in items[3:] if isinstance(item, Record)]
    told = items[2]
    assert isinstance(told, TailEvent)
    assert (3, len(START + step(1)), 1) == (told.line, told.offset, told.length)


# Network file systems and input errors.


def test_nul_bytes_are_settled_before_an_idle_follower_ends(stream: Path) -> None:
    """No pause at all still means a second look."""
    stream.write_bytes(START + b"\x00\n" + step(1))
    assert ["run_start", "[gap]", 1] == seen(list(follow(stream, idle_seconds=0, sleep=lambda _: None)))


def test_stale_descriptor_is_opened_again(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a read that failed halfway, reading goes on at the same byte, although the file did not change."""
    stream.write_bytes(START + step(1) * 5000)
    real = os.read
    stale: list[int] = []

    def failing(descriptor: int, size: int) -> bytes:
        if not stale and os.lseek(descriptor, 0, os.SEEK_CUR):
            stale.append(descriptor)
        if descriptor in stale:
            raise OSError(116, "Stale file handle")
        return real(descriptor, size)

    monkeypatch.setattr(os, "read", failing)
    with follow(stream, sleep=lambda _: None) as follower:
        assert ["run_start", *[1] * 5000] == seen([next(follower) for _ in range(5001)])
        assert stale
        assert follower.trouble is None


def test_trouble_is_shown_while_it_lasts(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that cannot look says why, and its idle limit still holds."""
    stream.write_bytes(START)
    times = iter(range(100))
    follower = follow(stream, until="forever", idle_seconds=20, sleep=lambda _: None, clock=lambda: next(times))
    next(follower)
    real = os.stat
    monkeypatch.setattr(
        os, "stat", lambda path, **kw: _raise(OSError(5, "error")) if path == str(stream) else real(path, **kw)
    )
    assert [] == list(follower)
    assert isinstance(follower.trouble, OSError)


def _raise(error: Exception) -> Any:
    raise error


def test_remounted_file_is_the_same_by_its_content(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another device number with the same inode and content is not a replacement."""
    stream.write_bytes(START)
    real = os.stat

    def moved(path: Any, **kw: Any) -> os.stat_result:
        status = real(path, **kw)
        return os.stat_result([*status[:2], status.st_dev + 1, *status[3:10]])

    def remount() -> None:
        monkeypatch.setattr(os, "stat", moved)
        monkeypatch.setattr(os, "fstat", moved)

    assert ["run_start", 1] == seen(watch(stream, remount, append(stream, step(1))))


@pytest.mark.posix
def test_path_that_can_never_be_followed_raises(tmp_path: Path) -> None:
    """A FIFO has no records to look back at; waiting would be for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StreamUnreadableError, match="a FIFO, not a regular file"):
        next(follow(tmp_path / "pipe"))
    with pytest.raises(StreamUnreadableError, match="not a usable path"):
        next(follow("nul\x00byte"))


@pytest.mark.posix
def test_special_file_in_place_of_the_stream_is_waited_out(stream: Path) -> None:
    """Once a file was followed, no neighbour can end the follower."""
    stream.write_bytes(START)

    def spoil() -> None:
        stream.unlink()
        os.mkfifo(stream)

    items = watch(stream, spoil, nothing, put_in_place(stream, START + step(1)))
    assert ["run_start", "[replaced]", "run_start", 1] == seen(items)


def test_fragment_that_is_cut_while_the_file_is_read_is_read_again(tmp_path: Path) -> None:
    """Between two blocks of one look a writer may resume: what it cut off never runs into what it wrote instead."""
    stream = tmp_path / "events.jsonl"
    committed = START + step(1) * (60_000 // len(step(1)))
    # The first block of 64 KiB ends inside the fragment.
    stream.write_bytes(committed + b'{"kind":"note","t":1.0,"text":"' + b"x" * 20_000)
    follower = follow(stream, until="forever", poll_seconds=0, idle_seconds=0)
    given = [next(follower)]
    os.truncate(stream, len(committed))
    with stream.open("ab") as file:
        file.write(step(2) + b'{"kind":"note","t":2.0,"text":"' + b"x" * 30_000 + b'"}\n' + step(3))
    given.extend(follower)
    lines = stream.read_bytes().splitlines()
    assert lines == [bytes(item.raw) for item in given if isinstance(item, Record)]
    assert len(lines) == len(given)
