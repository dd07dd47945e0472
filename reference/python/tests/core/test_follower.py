"""Tests of following a stream while it is written."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_streams import END, START, append, nothing, put_in_place, rotate, seen, step, watch
from property_examples import examples
from toyspec.core.reading.follower import TailEvent, follow
from toyspec.core.reading.live_stream import FINGERPRINT_BYTES
from toyspec.core.reading.reader import read
from toyspec.core.reading.records import Record
from toyspec.core.reading.stream_files import locate_stream


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """Return the path of a stream that does not exist yet."""
    return tmp_path / "events.jsonl"


def test_run_directory_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    """Path, stream and first record may come one after the other."""
    run = tmp_path / "runs" / "r"
    stream = run / "events.jsonl"
    items = watch(run, lambda: run.mkdir(parents=True), stream.touch, append(stream, START), append(stream, step(1)))
    assert ["run_start", 1] == seen(items)


def test_run_directory_that_is_made_while_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was nothing when it was looked for, and is a directory when it is opened, is looked for again."""
    run = tmp_path / "r"

    def located(path: str, *names: Any) -> str:
        found = locate_stream(path, *names)
        if not run.exists():
            run.mkdir()
            (run / "events.jsonl").write_bytes(START + step(1))
        return found

    monkeypatch.setattr("toyspec.core.reading.follower.locate_stream", located)
    assert ["run_start", 1] == seen(watch(run, nothing))


def test_following_stops_after_the_last_event(stream: Path) -> None:
    """A complete run is read once, to its last record, also where one is behind its end."""
    stream.write_bytes(START + END + step(7))
    items = list(follow(stream, sleep=lambda _: pytest.fail("looked again")))
    assert ["run_start", "run_end", "[ended]", 7] == seen(items)
    ended = items[2]
    assert isinstance(ended, TailEvent)
    assert (3, len(START + END)) == (ended.line, ended.offset)


@pytest.mark.parametrize("is_complete", [True, False])
def test_run_that_has_gone_on_is_read_to_its_last_end(stream: Path, is_complete: bool) -> None:
    """What follows an earlier end is given, and its own end is waited for."""
    resumed = b'{"kind":"run_resume","t":3.0,"from_step":7}\n' + step(8)
    stream.write_bytes(START + step(7) + END + resumed + (END if is_complete else b""))
    looks = []

    def look(_: float) -> None:
        looks.append(1)
        with stream.open("ab") as file:
            file.write(END)

    first = ["run_start", 7, "run_end", "[ended]", "run_resume", 8, "run_end", "[ended]"]
    assert first == seen(list(follow(stream, sleep=look)))
    assert is_complete == (not looks)


@pytest.mark.parametrize("name", ["events.jsonl", "notes.txt"])
def test_text_without_lf_is_not_held(name: str, tmp_path: Path) -> None:
    """Bytes that never show how they are to be read cost no memory, however many there are."""
    (tmp_path / name).write_bytes(b"x" * (1 << 24))
    tracemalloc.start()
    try:
        assert [] == list(follow(tmp_path / name, idle_seconds=0.0, max_line_bytes=1000))
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    finally:
        tracemalloc.stop()


# Stopping, cost, misuse.


def test_idle_time_counts_from_the_last_item(stream: Path) -> None:
    """A stream that goes silent ends the follower after the limit, a stream that goes on does not."""
    stream.write_bytes(START)
    now = [0.0]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += 1
        if len(pauses) == 4:
            append(stream, step(1))()

    items = list(follow(stream, idle_seconds=5, poll_seconds=0.5, sleep=sleep, clock=lambda: now[0]))
    assert ["run_start", 1] == seen(items)
    assert [0.5] * 9 == pauses


def test_stop_is_asked_within_a_long_look(stream: Path) -> None:
    """A caller need not wait for the end of a long file."""
    stream.write_bytes(START + step(1) * 100_000)
    calls = iter([False, False, False])
    assert len(list(follow(stream, stop=lambda: next(calls, True)))) < 10_000


def test_look_at_an_idle_stream_is_one_stat(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a look does not grow with the file, and no file is opened or read for it."""
    stream.write_bytes(START + step(1) * 1000)
    calls: list[str] = []

    def counted(name: str, real: Callable[..., Any], *args: Any, **options: Any) -> Any:
        calls.append(name)
        return real(*args, **options)

    for name in ("stat", "fstat", "read", "open", "lseek"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, partial(counted, name, real))
    watch(stream, *[nothing] * 3, calls.clear, *[nothing] * 9)
    assert ["stat"] * 10 == calls


def test_new_bytes_are_read_once(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long file that grows is not read again: only its fingerprint is."""
    stream.write_bytes(START + step(1) * 100_000)
    read_bytes: list[int] = []
    real = os.read

    def counting(descriptor: int, size: int) -> bytes:
        data = real(descriptor, size)
        read_bytes.append(len(data))
        return data

    monkeypatch.setattr(os, "read", counting)
    watch(stream, *[append(stream, step(2)) for _ in range(5)])
    assert sum(read_bytes) <= stream.stat().st_size + 6 * 3 * FINGERPRINT_BYTES


def test_follower_releases_its_file(stream: Path) -> None:
    """Read to the end, left early or never begun: no descriptor stays open."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    stream.write_bytes(START + END)
    before = os.listdir("/proc/self/fd")
    list(follow(stream))
    next(follow(stream))
    follow(stream)
    watch(stream, rotate(stream, START), put_in_place(stream, START), stream.unlink, append(stream, START))
    assert before == os.listdir("/proc/self/fd")


def test_misuse_is_refused_at_once(stream: Path) -> None:
    """Arguments that make no sense raise before anything is opened."""
    with pytest.raises(ValueError, match="until is 'end'"):
        follow(stream, until="end")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="profile is 'toy/v2'; it must be one of 'toy/v1'"):
        follow(stream, profile="toy/v2")
    with pytest.raises(ValueError, match="poll_seconds is -1"):
        follow(stream, poll_seconds=-1)
    with pytest.raises(ValueError, match="max_line_bytes"):
        follow(stream, max_line_bytes=0)


# Properties.

PIECES = [
    START,
    step(1),
    step(2),
    END,
    b"\n",
    b"{",
    b"\x00",
    b"\xff\n",
    b'{"a":',
    b"1}\n",
    b" \r\n",
    b"x" * 300,
    b"\x00\n",
]


@settings(max_examples=examples(100), deadline=None)
@given(chunks=st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join), max_size=8))
def test_following_any_chunking_is_reading_at_once(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    """However a file grows, its follower gives the records and gaps of a reading of the whole."""
    stream = tmp_path_factory.mktemp("run") / "events.jsonl"
    pauses = [action for chunk in chunks for action in (append(stream, chunk), nothing)]
    items = watch(stream, *pauses, nothing, max_line_bytes=200)
    if not stream.exists():
        stream.touch()
    reading = read(stream, mode="salvage", max_line_bytes=200)
    assert list(reading) == [item for item in items if isinstance(item, Record)]
    found = [
        (e.line, e.offset, e.length, e.reason, e.message) for e in items if isinstance(e, TailEvent) and e.kind == "gap"
    ]
    assert [(gap.line, gap.offset, gap.length, gap.reason, gap.message) for gap in reading.report.gaps] == found
