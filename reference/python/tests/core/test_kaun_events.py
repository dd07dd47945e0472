"""Scalars are read as they are appended, whatever happens to the file."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.kaun.scalars import ScalarStream, SkippedLine, close_events, open_events, read_events


def line(step: int) -> bytes:
    """Return a scalar as it is in a file."""
    return b'{"type":"scalar","step":%d,"tag":"loss","value":0.5}\n' % step


def append(path: Path, data: bytes) -> None:
    """Append bytes to a file."""
    with open(path, "ab") as file:
        file.write(data)


def new_steps(stream: ScalarStream) -> list[int]:
    """Return the steps of the scalars that one reading gives."""
    return [scalar.step for scalar in read_events(stream)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a stream that does not exist."""
    return tmp_path / "events.jsonl"


def test_each_reading_gives_what_is_new(tmp_path: Path, path: Path) -> None:
    """Nothing while the file is missing, then every scalar once; half a line waits for its end."""
    stream = open_events(tmp_path)
    assert ([], 0.0) == (new_steps(stream), stream.last_mtime)
    append(path, line(1) + line(2))
    assert [1, 2] == new_steps(stream)
    assert os.stat(path).st_mtime_ns / 1e9 == stream.last_mtime
    append(path, line(3)[:20])
    assert [] == new_steps(stream)
    append(path, line(3)[20:] + line(4)[:-1])
    assert [3] == new_steps(stream)
    append(path, b"\n")
    assert [4] == new_steps(stream)
    assert [] == new_steps(stream)


def test_lines_that_give_no_scalar_are_passed_over(tmp_path: Path, path: Path) -> None:
    """Carriage returns and blank lines are fine; invalid lines are listed with their place, and cost nothing else."""
    first = line(1).replace(b"\n", b"\r\n") + b"\n \r\n"
    bad = [
        b"{broken\n",
        b'{"type":"scalar","step":2}\n',
        b'{"type":"scalar","step":"2","tag":"a","value":1}\n',
        b'{"a":1}\n',
    ]
    append(path, first + b"".join(bad) + b'{"type":"image","step":1}\n' + line(3))
    stream = open_events(tmp_path)
    assert [1, 3] == new_steps(stream)
    offsets = [len(first) + sum(map(len, bad[:n])) for n in range(len(bad))]
    assert [(4 + n, offset) for n, offset in enumerate(offsets)] == [
        (skip.line, skip.offset) for skip in stream.skipped
    ]
    assert isinstance(stream.skipped[0], SkippedLine)
    assert stream.skipped[0].reason.startswith("invalid-json: ")
    assert (4, []) == (stream.skipped_lines, new_steps(stream) or stream.skipped)


def test_the_list_of_skipped_lines_is_bounded(tmp_path: Path, path: Path) -> None:
    """A stream of garbage is counted whole and listed in part."""
    append(path, b"x\n" * 1000)
    stream = open_events(tmp_path)
    assert [] == new_steps(stream)
    assert (100, 1000) == (len(stream.skipped), stream.skipped_lines)


def test_a_replaced_file_is_read_from_its_start(tmp_path: Path, path: Path) -> None:
    """After a rotation the rest of the old file comes first, then all of the new one."""
    append(path, line(1))
    stream = open_events(tmp_path)
    assert [1] == new_steps(stream)
    append(path, line(2) + b'{"half')
    path.rename(tmp_path / "rotated")
    append(path, line(3))
    assert [2, 3] == new_steps(stream)
    append(path, line(4))
    assert [4] == new_steps(stream)


def test_a_shortened_file_is_read_from_its_start(tmp_path: Path, path: Path) -> None:
    """A file that is shorter than what was read has begun again; half a line from before is forgotten."""
    append(path, line(1) + line(2) + b'{"half')
    stream = open_events(tmp_path)
    assert [1, 2] == new_steps(stream)
    path.write_bytes(line(7))
    assert [7] == new_steps(stream)


def test_a_missing_file_resets_the_stream(tmp_path: Path, path: Path) -> None:
    """When the file is gone there is nothing, and what comes later is read from its start."""
    append(path, line(1))
    stream = open_events(tmp_path)
    assert [1] == new_steps(stream)
    path.unlink()
    assert [] == new_steps(stream)
    append(path, line(1) + line(2))
    assert [1, 2] == new_steps(stream)


def test_closing_keeps_the_position(tmp_path: Path, path: Path) -> None:
    """A stream that was closed goes on where it was; closing twice is fine."""
    append(path, line(1))
    stream = open_events(tmp_path)
    assert [1] == new_steps(stream)
    close_events(stream)
    close_events(stream)
    append(path, line(2))
    assert [2] == new_steps(stream)
    close_events(stream)
    path.rename(tmp_path / "rotated")
    append(path, line(3))
    assert [3] == new_steps(stream)


def test_what_cannot_be_read_gives_nothing(tmp_path: Path, path: Path) -> None:
    """A directory, a pipe or an impossible path raises nothing and does not block."""
    os.mkfifo(path)
    assert [] == new_steps(open_events(tmp_path))
    path.unlink()
    path.mkdir()
    assert [] == new_steps(open_events(tmp_path))
    assert [] == new_steps(open_events(path / "events.jsonl" / "x"))
    assert [] == new_steps(ScalarStream("a\0b"))
    assert [] == new_steps(ScalarStream("x" * 5000))


@given(st.lists(st.integers(1, 120), max_size=12))
def test_cuts_do_not_matter(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    """However the bytes arrive between readings, the scalars are the same."""
    data = b"".join(line(step) for step in range(8)) + b"{bad\n" + line(9)
    directory = tmp_path_factory.mktemp("run")
    stream = open_events(directory)
    found = []
    for cut in [*cuts, len(data)]:
        append(directory / "events.jsonl", data[:cut])
        data = data[cut:]
        found.extend(new_steps(stream))
    assert [*range(8), 9] == found
    stream.close()


def test_what_is_optional_does_not_spoil_a_scalar(tmp_path: Path, path: Path) -> None:
    """An invalid optional member counts as absent, and a fraction of a step or epoch is cut."""
    lines: list[dict[str, object]] = [
        {"step": 1, "tag": "a", "value": 1, "epoch": None, "wall_time": "x", "minimize": 1},
        {"step": 2.75, "tag": "a", "value": None, "epoch": 1.5, "minimize": True},
        {"step": 3.0, "tag": "a", "value": 0.5, "epoch": -1},
        {"step": True, "tag": "a", "value": 0.5},
        {"step": -1, "tag": "a", "value": 0.5},
        {"step": 4, "tag": 4, "value": 0.5},
        {"step": 5, "tag": "a", "value": "0.5"},
        {"step": 6, "tag": "a"},
    ]
    append(path, b"".join(json.dumps({"type": "scalar", **line}).encode() + b"\n" for line in lines))
    stream = open_events(tmp_path)
    found = [(each.step, each.value, each.epoch, each.wall_time, each.minimize) for each in stream.read()]
    assert [(1, 1.0, None, 0.0, None), (2, math.nan, 1, 0.0, True), (3, 0.5, None, 0.0, None)] == found
    assert [4, 5, 6, 7, 8] == [skip.line for skip in stream.skipped]
