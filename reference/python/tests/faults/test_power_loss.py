"""Faults D: the machine dies, or its disk keeps something else than it was given. Synthetic: nothing is unplugged."""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

import toyspec
from faults.crash_states import log
from faults.oracles import survey
from faults.tally import ROWS, count, scaled
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.append_file import Durability
from toyspec.testing import ManualClock

LOG = log(40)
LINES = LOG.split(b"\n")[:-1]


@pytest.mark.parametrize("size", [1, 63, 4096, 100_000])
def test_d01_d02_nul_bytes_at_the_end_are_moved_before_anything_follows(size: int, tmp_path: Path) -> None:
    """A resumed writer moves the bytes that a power loss left, and no record is after them."""
    stream = tmp_path / "run/events.jsonl"
    stream.parent.mkdir()
    head = b"".join(line + b"\n" for line in LINES[:-1])
    stream.write_bytes(head)
    os.truncate(stream, len(head) + size)
    count("crash states tried")
    assert "torn" == read(stream).report.state
    with toyspec.RunWriter(stream.parent, exist="resume") as run:
        run.run_resume(0)
        run.step(1)
    assert "complete" == read(stream, mode="strict").report.state
    assert bytes(size) == (tmp_path / f"run/events.jsonl.torn-{len(head)}").read_bytes()


def test_d05_blocks_of_garbage_invent_nothing() -> None:
    """Random blocks, line feeds among them, are gaps: no record comes out of them."""
    chance = random.Random(5)
    for _ in range(scaled(300, 1500)):
        size = chance.choice([16, 64, 512])
        place = chance.randrange(0, len(LOG), 16)
        garbage = bytes(chance.choice([10, *range(256)]) for _ in range(size))
        count("crash states tried")
        found, _ = survey(LOG[:place] + garbage + LOG[place + size :])
        invented = [line for line in found if line not in LINES]
        count("records invented", len(invented))
        assert not invented


def test_d06_d07_the_first_and_the_last_record_are_synced_with_their_name(tmp_path: Path) -> None:
    """The file and its directory are forced to the disk at run_start, and again at run_end."""
    synced: list[str] = []

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        os.fsync(descriptor)

    with toyspec.RunWriter(tmp_path / "run", calls=SystemCalls(fsync=note)) as run:
        run.run_start()
        assert [str(tmp_path / "run/events.jsonl"), str(tmp_path / "run")] == synced
        run.step(1)
        assert 2 == len(synced)
    assert [str(tmp_path / "run/events.jsonl"), str(tmp_path / "run")] * 2 == synced


@pytest.mark.parametrize("sidecar", [b"", b"{", bytes(100), b'{"schema_version":1,"run_id":"another"}'])
def test_d08_a_sidecar_of_another_time_changes_no_record(sidecar: bytes, tmp_path: Path) -> None:
    """The stream is the only truth: what a crash left of the files beside it does not count."""
    (tmp_path / "events.jsonl").write_bytes(LOG)
    (tmp_path / "run.json").write_bytes(sidecar)
    assert LINES == [record.raw for record in read(tmp_path)]


class Level(NamedTuple):
    """A level of durability, and how many records a power loss takes at most where one is written each second."""

    name: str
    durability: Durability
    most: int


LEVELS = [
    Level("`process` (default)", "process", 100),
    Level("`fsync`", "fsync", 0),
]


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_of_durability_loses_what_its_page_says(
    level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss after any of a hundred steps, one each second, takes what came after the last sync, and no more."""
    durable, synced, lost, clock = 0, 0, [], ManualClock()
    monkeypatch.setattr("toyspec.core.writing.append_file.time.monotonic", clock.monotonic)

    def note(descriptor: int) -> None:
        nonlocal durable, synced
        os.fsync(descriptor)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            durable, synced = os.fstat(descriptor).st_size, synced + 1

    calls, (name, durability, most) = SystemCalls(fsync=note), level
    with toyspec.RunWriter(tmp_path / "run", durability=durability, clock=clock, calls=calls) as run:
        run.run_start()
        for step in range(1, 101):
            clock.advance(1.0)
            run.step(step, loss=0.5)
            count("crash states tried")
            lost.append(step + 1 - read(Path(run.events_path).read_bytes()[:durable]).report.records)
    assert most == max(lost)
    assert 102 == read(Path(run.events_path).read_bytes()[:durable]).report.records
    ROWS["levels"] = ROWS["levels"] or [
        "| level | syncs of the stream | records that a power loss takes, at worst | on average | after `run_end` |",
        "|---|---|---|---|---|",
    ]
    ROWS["levels"].append(f"| {name} | {synced} | {max(lost)} | {sum(lost) / len(lost):.1f} | 0 |")


def test_d09_a_flipped_bit_changes_one_record_at_most() -> None:
    """Without checksums a number that has changed cannot be detected; all other records stay, and none is added."""
    for place in range(0, len(LOG) - 1, scaled(13, 5)):
        for bit in range(8):
            state = bytearray(LOG)
            state[place] ^= 1 << bit
            count("crash states tried")
            found, report = survey(bytes(state))
            hit = LOG.count(b"\n", 0, place)
            others = [line for number, line in enumerate(LINES) if number not in (hit, hit + (LOG[place] == 10))]
            following = iter(found)
            assert all(line in following for line in others)
            assert len(found) <= len(others) + 2
            assert report.gap_bytes <= 2 * max(map(len, LINES)) + 2
