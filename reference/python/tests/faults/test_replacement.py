"""Faults R: what happens to the name of a stream while it is written and read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.tally import count
from live_streams import END, START, append, seen, step, watch
from toyspec.core.writing.append_file import AppendFile


def test_r01_a_renamed_file_is_written_on(tmp_path: Path) -> None:
    """A writer goes on in the file that it has open, under whatever name; no record goes elsewhere."""
    path = tmp_path / "events.jsonl"
    file = AppendFile.create(str(path))
    file.append(b"1")
    path.rename(tmp_path / "rotated")
    file.append(b"2")
    file.close()
    assert b"1\n2\n" == (tmp_path / "rotated").read_bytes()
    assert not path.exists()


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


@pytest.mark.parametrize("size", [0, 10])
def test_r03_a_writer_goes_on_behind_a_cut_without_a_hole(size: int, tmp_path: Path) -> None:
    """Someone empties the file under its writer: the next record follows, with no NUL byte before it."""
    path = tmp_path / "events.jsonl"
    file = AppendFile.create(str(path))
    for _ in range(5):
        file.append(b"x" * 9)
    os.truncate(path, size)
    file.append(b"next")
    file.close()
    count("faults injected")
    assert b"xxxxxxxxx\n"[:size] + b"next\n" == path.read_bytes()


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
