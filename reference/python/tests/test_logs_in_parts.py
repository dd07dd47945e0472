"""A log of several files: Trackio's fragments are read as one log, in order, and followed as they come and go."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import toyspec_within as toyspec
from property_examples import examples
from test_dialects import sample
from toyspec import check, follow, list_runs, read
from toyspec.convert import import_runs
from toyspec.errors import StreamMissingError, StreamUnreadableError
from toyspec.reading.follower import TailEvent
from toyspec.reading.live_stream import open_live
from toyspec.reading.rows import Row
from toyspec.runs.discovery import find_streams
from toyspec.runs.walking import Stream
from toyspec.view.identities import identity_at
from toyspec.view.scanned_runs import ScannedRun

if TYPE_CHECKING:
    from collections.abc import Iterator


def record(step: int, **more: Any) -> bytes:
    """Return the line of a record of Trackio."""
    value = {"v": 1, "kind": "metric", "project": "p", "run": "lucky-bird-1", "run_id": "r", "step": step}
    value |= {"metrics": {"loss": 2.5 / (step + 1)}, "timestamp": f"2026-11-22T10:00:{step % 60:02}+00:00"}
    return json.dumps(value | {"config": None, "log_id": f"l{step}"} | more).encode() + b"\n"


def add(writer: Path, number: int, *steps: int, data: bytes | None = None) -> Path:
    """Add a fragment as Trackio does: under another name first."""
    writer.mkdir(parents=True, exist_ok=True)
    beside = writer / "tmpq3x.tmp"
    beside.write_bytes(b"".join(map(record, steps)) if data is None else data)
    return beside.replace(writer / f"{number:08}.jsonl")


def steps_of(path: Path) -> list[Any]:
    """Return the steps of the rows of a log."""
    return [row.step for row in read(path, mode="salvage") if isinstance(row, Row)]


def test_fragments_are_one_log(tmp_path: Path) -> None:
    """The sample of the real program is one run, with its name, in every command that reads in place."""
    path, expected = sample("trackio")
    parts = sorted(path.iterdir())
    assert len(parts) > 2
    (stream,) = find_streams(str(path.parent), hints=["*.jsonl"])
    assert isinstance(stream, Stream)
    assert (str(path), sum(part.stat().st_size for part in parts)) == (stream.path, stream.size)
    (run,) = list_runs(path.parent)
    assert ("lucky-bird-1", expected["last_step"], "complete") == (run.name, run.last_step, run.state)
    sentence = f'read as: trackio dialect, {len(parts)} files as one log, step = "step", time = "timestamp"'
    for command in (("show",), ("tail", "--once"), ("check",)):
        done = toyspec(*command, str(path))
        assert 0 == done.returncode
        assert 1 == (done.stdout + done.stderr).decode().count(sentence)
    done = toyspec("compare", str(path), str(shutil.copytree(path, tmp_path / "again")))
    assert 0 == done.returncode
    assert b"0.416667" in done.stdout
    outcome = import_runs([path], tmp_path / "out")
    assert ["trackio"] == [each.format for each in outcome.runs]


def test_files_of_maxtext_are_one_log_beside_others(tmp_path: Path) -> None:
    """The numbers in their names order them, however many digits each has; a table beside them is a log of its own."""
    folder = tmp_path / "demo"
    folder.mkdir()
    for first in (0, 999_990, 1_000_000):
        lines = (f'{{"learning/loss": 2.5, "step": {step}.0, "run_name": "a"}}\n' for step in (first, first + 9))
        (folder / f"metrics_step_{first:06}_to_step_{first + 9:06}.txt").write_text("".join(lines))
    (folder / "metrics.csv").write_text("step,loss\n1,2.5\n")
    assert [0, 9, 999_990, 999_999, 1_000_000, 1_000_009] == steps_of(folder)
    assert ["csv", "maxtext"] == sorted(run.dialect.name for run in list_runs(tmp_path) if run.dialect)
    assert () == tuple(check(folder).files[0].findings)
    (folder / "metrics_step_1000010_to_step_1000019.txt").write_text(
        '{"learning/loss": 2, "step": 1000019.0, "run_name": "a"}\n'
    )
    assert 1_000_019 == steps_of(folder)[-1]


@settings(max_examples=examples(60), deadline=None)
@given(cuts=st.lists(st.integers(0, 12), max_size=5), whole=st.booleans())
def test_parts_are_read_as_their_concatenation(cuts: list[int], whole: bool) -> None:
    """Rows, offsets and the account are those of one file with the same bytes, wherever it was cut into parts."""
    lines = [record(step, config={"lr": 0.1}) for step in range(12)]
    lines[-1] = lines[-1] if whole else lines[-1][:-3]
    bounds = [0, *sorted(cuts), 12]
    with tempfile.TemporaryDirectory() as name:
        for number, (start, end) in enumerate(pairwise(bounds)):
            add(Path(name) / "w", number, data=b"".join(lines[start:end]))
        one = Path(name) / "one.jsonl"
        one.write_bytes(b"".join(lines))
        readings = [read(path, mode="salvage") for path in (one, Path(name) / "w")]
        first, second = ([(row.raw, row.line, row.offset) for row in reading] for reading in readings)
        assert first == second
        assert readings[0].report.size == readings[1].report.size
        assert readings[0].report.state == readings[1].report.state == ("complete" if whole else "torn")


def test_a_cut_part_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    """A part without its last LF is one unreadable line; the finding names the file, and the line in it."""
    writer = tmp_path / "inbox" / "w"
    add(writer, 0, 0, 1)
    add(writer, 1, data=record(2) + record(3)[:-9])
    add(writer, 2, 4)
    assert [0, 1, 2, 4] == steps_of(writer)
    (report,) = check(tmp_path).files
    (finding,) = report.findings
    assert ("damaged", "invalid-json", "w/00000001.jsonl", 2) == (
        report.state, finding.rule, finding.sidecar, finding.line,
    )  # fmt: skip
    assert len(record(2)) <= finding.offset <= len(record(2) + record(3))
    done = toyspec("check", str(writer))
    assert f"{writer / '00000001.jsonl'}:2: invalid-json" in done.stdout.decode()
    with follow(writer, idle_seconds=0.0) as follower:
        (gap,) = [item for item in follower if isinstance(item, TailEvent)]
    assert ("gap", str(writer / "00000001.jsonl"), 2) == (gap.kind, gap.path, gap.line)


def test_other_files_with_such_names_are_logs_of_their_own(tmp_path: Path) -> None:
    """A log for each day has eight digits too."""
    for day in (20261121, 20261122):
        (tmp_path / f"{day}.jsonl").write_bytes(b'{"step":1,"loss":2.5}\n{"step":2,"loss":1.5}\n')
    assert ["20261121.jsonl", "20261122.jsonl"] == sorted(run.name for run in list_runs(tmp_path))


def test_follow_sees_fragments_come_and_go(tmp_path: Path) -> None:
    """New fragments are read once each, and those that were merged into the database are not missed."""
    writer = tmp_path / "inbox" / "w"

    def merge(*numbers: int) -> None:
        for number in numbers:
            (writer / f"{number:08}.jsonl").unlink()
        if not any(writer.iterdir()):
            writer.rmdir()

    def script() -> Iterator[None]:
        yield None
        add(writer, 0, 0, 1)
        yield None
        add(writer, 1, 2)
        add(writer, 2, 3, 4)
        yield None
        merge(0)
        yield None
        merge(1, 2)
        yield None
        add(writer, 3, 5)
        yield None
        add(writer, 4, 6)
        add(writer, 5, 7)
        merge(4)
        yield None

    actions, is_over = script(), threading.Event()

    def sleep(_: float) -> None:
        if next(actions, "over") is not None:
            is_over.set()

    found = [
        item.kind if isinstance(item, TailEvent) else getattr(item, "step", None)
        for item in follow(writer, until="forever", sleep=sleep, stop=is_over.is_set)
    ]
    assert [0, 1, 2, 3, 4, "gone", 5, 7] == found


def test_resumed_run_is_one_log(tmp_path: Path) -> None:
    """The fragments of each process that went on with a run are read in the order of their times, by any of them."""
    inbox = tmp_path / "inbox"
    add(inbox / "a", 0, data=record(30) + record(31))
    add(inbox / "b", 0, data=record(10) + record(11))
    add(inbox / "b", 1, data=record(12))
    add(inbox / "c", 0, data=record(20, run_id="another"))
    found = [stream.path for stream in find_streams(str(tmp_path), hints=["*.jsonl"]) if isinstance(stream, Stream)]
    assert [str(inbox / "b"), str(inbox / "c")] == found
    for writer in ("a", "b"):
        assert [10, 11, 12, 30, 31] == steps_of(inbox / writer)
        (stream,) = find_streams(str(inbox / writer), hints=["*.jsonl"])
        assert isinstance(stream, Stream)
    assert [("lucky-bird-1", 20), ("lucky-bird-1", 31)] == sorted((run.name, run.last_step) for run in list_runs(inbox))


def test_follow_goes_on_with_the_process_that_resumes(tmp_path: Path) -> None:
    """A directory that is added while a run is followed is a part of it; a later part of the first one is read too."""
    inbox = tmp_path / "inbox"
    add(inbox / "b", 0, 10, 11)
    live = open_live(str(inbox / "b"))
    assert 2 == live.peek(1 << 16).count(b"\n")
    live.restart()
    first = live.status_at_path().st_size
    add(inbox / "a", 0, 30)
    second = live.status_at_path().st_size
    add(inbox / "b", 1, 12)
    assert first < second < live.status_at_path().st_size
    data = live.read(0, 1 << 16)
    assert [10, 11, 30, 12] == [json.loads(line)["step"] for line in data.splitlines()]
    shutil.rmtree(inbox / "a")
    live.status_at_path()
    live.close()


def test_viewer_reads_what_is_new(tmp_path: Path) -> None:
    """The viewer's file grows with the fragments, and its identity with it."""
    writer = tmp_path / "w"
    add(writer, 0, 0, 1)
    file = ScannedRun(str(writer))
    assert file.read()
    assert identity_at(str(writer)) == file.identity()
    assert not file.read()
    add(writer, 1, 2, 3)
    assert identity_at(str(writer)) != file.identity()
    assert file.read()
    assert identity_at(str(writer)) == file.identity()
    summary = file.scan.summary
    assert ("lucky-bird-1", 3, 4) == (summary.name, summary.last_step, summary.extent.records)
    file.close()


def test_a_part_that_goes_while_it_is_read(tmp_path: Path) -> None:
    """The error names the part, and says what to do."""
    writer = tmp_path / "w"
    for number in range(3):
        add(writer, number, *range(400))
    with read(writer, mode="salvage") as reading:
        os.unlink(writer / "00000002.jsonl")
        with pytest.raises(StreamUnreadableError, match=r"00000002\.jsonl has been removed, so reading stopped"):
            list(reading)


def test_directory_without_parts_is_not_yet_a_log(tmp_path: Path) -> None:
    """A run directory may be found before its stream is there; who follows it waits for that."""
    with pytest.raises(StreamMissingError, match="the directory has no log"):
        open_live(str(tmp_path))
