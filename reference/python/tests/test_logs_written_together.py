"""A log of several files that grow at the same time: NeMo AutoModel's training and validation are one log."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
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
from toyspec.reading.follower import TailEvent
from toyspec.reading.live_stream import open_live
from toyspec.reading.parts import parts_in
from toyspec.reading.rows import Row
from toyspec.runs.discovery import find_streams
from toyspec.runs.walking import Stream
from toyspec.view.identities import identity_at
from toyspec.view.scanned_runs import ScannedRun

if TYPE_CHECKING:
    from collections.abc import Iterator

TRAINING, VALIDATION = "training.jsonl", "validation.jsonl"


def line(step: int | None, name: str, *, time: float | None = None, value: float = 2.5) -> bytes:
    """Return the line of a record of NeMo AutoModel; its step is null where *step* is None."""
    seconds = (step or 0) if time is None else time
    stamp = f"2026-11-22T10:{int(seconds) // 60:02}:{int(seconds) % 60:02}.000Z"
    return json.dumps({"step": step, "epoch": 0, "timestamp": stamp, name: value}).encode() + b"\n"


def add(run: Path, name: str, data: bytes) -> None:
    """Append *data* to the file *name* of *run*."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / name).open("ab") as file:
        file.write(data)


def shown(path: Path) -> list[tuple[Any, str]]:
    """Return the step and the metric of each row of a log."""
    return [(row.step, next(iter(row.values))) for row in read(path, mode="salvage") if isinstance(row, Row)]


def copied(tmp_path: Path) -> Path:
    """Return a directory with the files of the sample of the real program."""
    path, _ = sample("nemo-automodel")
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    for name in (TRAINING, VALIDATION):
        shutil.copy(path.parent / name, run)
    return run


def test_files_are_one_run_in_every_command(tmp_path: Path) -> None:
    """The sample of the real program is one run, in the order of times, and of steps within one."""
    run = copied(tmp_path)
    size = sum(file.stat().st_size for file in run.iterdir())
    (stream,) = find_streams(str(tmp_path), hints=["*.jsonl"])
    assert isinstance(stream, Stream)
    assert (str(run), size) == (stream.path, stream.size)
    steps = [(0, "loss"), (1, "loss"), (2, "loss"), (2, "val_loss"), (3, "loss"), (4, "loss")]
    assert [*steps, (5, "loss"), (5, "val_loss")] == shown(run)
    (listed,) = list_runs(tmp_path)
    assert ("a", 5, "complete", {"loss", "val_loss"}) == (
        listed.name, listed.last_step, listed.state, {"loss", "val_loss"} & set(listed.series),
    )  # fmt: skip
    sentence = 'read as: nemo-automodel dialect, 2 files as one log, step = "step", time = "timestamp"'
    for command in (("show",), ("tail", "--once"), ("check",)):
        done = toyspec(*command, str(run))
        assert (0, 1) == (done.returncode, (done.stdout + done.stderr).decode().count(sentence))
    (report,) = check(tmp_path).files
    assert ("complete", 8, []) == (report.state, report.records, report.findings)
    done = toyspec("compare", str(run), str(shutil.copytree(run, tmp_path / "again")))
    assert (0, True) == (done.returncode, b"2.26894" in done.stdout)
    assert b"NeMo AutoModel metrics" in toyspec("doctor", str(tmp_path)).stdout
    outcome = import_runs([tmp_path / "runs"], tmp_path / "out")
    assert [("nemo-automodel", "a")] == [(each.format, Path(each.target).name) for each in outcome.runs]
    times = [row.event.t for row in read(tmp_path / "out" / "a") if row.kind == "scalars" and row.event is not None]
    assert sorted(times) == times
    assert 8 == len(times)


@settings(max_examples=examples(60), deadline=None)
@given(
    training=st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 9)), max_size=12).map(sorted),
    validation=st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 9)), max_size=6).map(sorted),
    torn=st.integers(0, 40),
)
def test_lines_are_in_the_order_of_times(
    training: list[tuple[int, int]], validation: list[tuple[int, int]], torn: int
) -> None:
    """Every byte is read once; whole lines are sorted by time and step, -1 for none, training before validation."""
    lines = {
        TRAINING: [line(None if step < 0 else step, "loss", time=time) for time, step in training],
        VALIDATION: [line(None if step < 0 else step, "val_loss", time=time) for time, step in validation],
    }
    keyed = [(*key, 0, data) for key, data in zip(training, lines[TRAINING], strict=True)]
    keyed += [(*key, 1, data) for key, data in zip(validation, lines[VALIDATION], strict=True)]
    expected = b"".join(entry[-1] for entry in sorted(keyed, key=lambda entry: entry[:3]))
    fragment = line(60, "loss")[:torn]
    with tempfile.TemporaryDirectory() as name:
        add(Path(name), TRAINING, b"".join(lines[TRAINING]) + fragment)
        add(Path(name), VALIDATION, b"".join(lines[VALIDATION]))
        parts = parts_in(name)
        data = b""
        while piece := parts.read(len(data), 97):
            data += piece
        assert expected + fragment == data
        assert len(data) == parts.size == parts.status().st_size
        for offset in range(0, len(expected), 61):
            file, number, inner = parts.located(offset)
            content = (Path(name) / file).read_bytes()
            assert content[inner : inner + 1] == data[offset : offset + 1]
            assert content[:inner].count(b"\n") + 1 == number
        parts.close()


def test_files_with_very_many_lines_follow_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What orders the lines of the shorter files takes memory: it is given up where there are more than a limit."""
    run = copied(tmp_path)
    monkeypatch.setattr("toyspec.reading.parts._MOST_LINES", 1)
    assert [(step, "loss") for step in range(6)] + [(2, "val_loss"), (5, "val_loss")] == shown(run)


def test_both_files_may_be_torn_and_damaged(tmp_path: Path) -> None:
    """A finding names its file and the line there; what follows the last LF of each file is one fragment."""
    add(tmp_path, TRAINING, line(1, "loss") + b'{"step": 2, "epo\n' + line(3, "loss") + line(4, "loss")[:20])
    add(tmp_path, VALIDATION, line(2, "val_loss") + b'{"step": 3, \n' + line(5, "val_loss")[:9])
    (report,) = check(tmp_path).files
    found = [(finding.rule, os.path.basename(finding.sidecar or ""), finding.line) for finding in report.findings]
    assert ("damaged", 3) == (report.state, report.records)
    assert {TRAINING: 2, VALIDATION: 2} == {file: number for rule, file, number in found if rule == "invalid-json"}
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == report.bytes
    assert ["unterminated-line"] == [rule for rule, _, _ in found if rule != "invalid-json"]
    with follow(tmp_path, idle_seconds=0.0) as follower:
        gaps = {(item.path, item.line) for item in follower if isinstance(item, TailEvent)}
    assert {(str(tmp_path / TRAINING), 2), (str(tmp_path / VALIDATION), 2)} == gaps


def test_follow_reads_both_files_as_they_grow(tmp_path: Path) -> None:
    """Each record is read once as its LF comes, to whichever file, also where the other one has a fragment."""

    def script() -> Iterator[None]:
        add(tmp_path, TRAINING, line(1, "loss") + line(2, "loss"))
        yield
        add(tmp_path, VALIDATION, line(2, "val_loss")[:30])
        yield
        add(tmp_path, TRAINING, line(3, "loss")[:25])
        yield
        add(tmp_path, VALIDATION, line(2, "val_loss")[30:])
        yield
        add(tmp_path, TRAINING, line(3, "loss")[25:] + line(4, "loss"))
        add(tmp_path, VALIDATION, line(4, "val_loss"))
        yield
        add(tmp_path, "validation_wiki.jsonl", line(4, "val_loss"))
        yield
        (tmp_path / TRAINING).write_bytes(line(1, "loss"))
        yield

    actions, is_over = script(), threading.Event()

    def sleep(_: float) -> None:
        if next(actions, "over") is not None:
            is_over.set()

    found = [
        item.kind if isinstance(item, TailEvent) else (item.value["step"], "loss" in item.value)
        for item in follow(tmp_path, until="forever", sleep=sleep, stop=is_over.is_set)
    ]
    first = [(1, True), (2, True), (2, False), (3, True), (4, True), (4, False), (4, False)]
    assert [*first, "truncated", (1, True), (2, False), (4, False), (4, False)] == found


def test_a_file_that_was_cut_and_grew_again_is_read_again(tmp_path: Path) -> None:
    """A file that is as long as before but has other lines is noticed by what was read last."""
    add(tmp_path, TRAINING, line(1, "loss") + line(2, "loss"))
    live = open_live(str(tmp_path))
    live.take(live.peek(1 << 16))
    assert "same" == live.content()
    (tmp_path / TRAINING).write_bytes(line(1, "loss") + line(2, "loss", value=1.5) + line(3, "loss"))
    live.status_at_path()
    assert "replaced" == live.content()
    live.close()


def test_viewer_reads_what_either_file_has_got(tmp_path: Path) -> None:
    """The identity of a log changes with each file, and is that of the file that the viewer has read."""
    add(tmp_path, TRAINING, line(1, "loss"))
    file = ScannedRun(str(tmp_path))
    for name, step in ((VALIDATION, 1), (TRAINING, 2), (VALIDATION, 2)):
        file.read()
        assert identity_at(str(tmp_path)) == file.identity()
        add(tmp_path, name, line(step, "val_loss" if name == VALIDATION else "loss"))
        assert identity_at(str(tmp_path)) != file.identity()
        assert file.read()
    assert (2, 2) == (file.scan.summary.series["loss"].count, file.scan.summary.series["val_loss"].count)
    file.close()


def test_data_with_the_same_name_is_a_log_of_its_own(tmp_path: Path) -> None:
    """Many people name their data training.jsonl and validation.jsonl: the records decide."""
    add(tmp_path, TRAINING, line(1, "loss"))
    add(tmp_path, VALIDATION, b'{"prompt": "a", "answer": "b"}\n' * 3)
    assert [(1, "loss")] == shown(tmp_path)
    found = {stream.path for stream in find_streams(str(tmp_path), hints=["*.jsonl"]) if isinstance(stream, Stream)}
    assert {str(tmp_path), str(tmp_path / VALIDATION)} == found
    (tmp_path / TRAINING).write_bytes(b'{"prompt": "a", "answer": "b"}\n')
    found = {stream.path for stream in find_streams(str(tmp_path), hints=["*.jsonl"]) if isinstance(stream, Stream)}
    assert {str(tmp_path / TRAINING), str(tmp_path / VALIDATION)} == found
