"""A stream that another program cuts short while its run writes it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

import toyspec
from toyspec.core.system_calls import SYSTEM_CALLS
from toyspec.core.writing import append_file


@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("then", [(0, "left"), (3, "left"), (0, "moved"), (3, "deleted")])
def test_a_stream_that_is_cut_stays_readable(
    part: float,
    then: tuple[int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What is gone is counted, in the log too; what is left and what follows can be read, with its steps.

    That the file is moved or deleted before the writer has seen the cut changes nothing.
    """
    late, fate = then
    run = toyspec.start_run(tmp_path, run_id="a")
    path = run.events_path
    for step in range(1, 101):
        run.step(loss=1.0, step=step)
    whole = Path(path).read_bytes()
    os.truncate(path, int(part * len(whole)))
    for step in range(101, 101 + late):
        run.step(loss=2.0, step=step)
    if fate == "moved":
        os.rename(path, tmp_path / "elsewhere")
    elif fate == "deleted":
        os.unlink(path)
    # The next look is due now.
    monkeypatch.setattr(append_file, "_monotonic", lambda: float("inf"))
    run.step(loss=3.0, step=200)
    run.run_end()
    items = list(toyspec.read(path))
    records = [item for item in items if isinstance(item, toyspec.Record)]
    assert records == items
    steps = [record["step"] for record in records if record.kind == "step"]
    assert sorted(set(steps)) == steps
    assert 200 == steps[-1]
    assert "run_start" == records[0].kind
    lost = next(record["dropped"]["record"] for record in records if record.kind == "note")
    assert lost == run.dropped == 101 + late - len(steps)
    found = toyspec.check(str(tmp_path))
    assert {"records-dropped"} <= {finding.rule for finding in found.files[0].findings}
    assert found.files[0].valid
    assert "complete" == found.files[0].state
    assert 1 == capfd.readouterr().err.count("cut the file short")


@pytest.mark.parametrize("next_line", ["removed", "written"])
def test_a_cut_is_seen_after_a_line_of_which_a_part_was_written(next_line: str, tmp_path: Path) -> None:
    """The disk that is full, or the signal that comes, just after a cut does not hide it."""
    parts = [3] if next_line == "removed" else [1000]
    interrupted = OSError(errno.ENOSPC, "full") if next_line == "removed" else KeyboardInterrupt()

    def write(descriptor: int, data: bytes) -> int:
        if not is_failing:
            return os.write(descriptor, data)
        if parts:
            written = os.write(descriptor, data[: parts.pop()])
            if written < len(data):
                return written
        raise interrupted

    is_failing, lost = False, list[int]()
    calls = msgspec.structs.replace(SYSTEM_CALLS, write=write)
    options = append_file.Options(calls=calls, look_seconds=0.0)
    file = append_file.AppendFile.create(str(tmp_path / "log"), options=options)
    file.on_truncation = lost.append
    for _ in range(9):
        file.append(b"x" * 99)
    os.truncate(file.path, 450)
    file._next_look = float("inf")
    is_failing = True
    with pytest.raises(type(interrupted)):
        file.append(b"y" * 99)
    is_failing, file._next_look = False, 0.0
    file.settle()
    file.append(b"z" * 99)
    assert [450] == lost


def test_a_resumed_log_without_its_first_line_says_again_whose_run_it_is(tmp_path: Path) -> None:
    """A writer that was killed before it saw a cut leaves a log without run_start; the next one writes it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "events.jsonl").write_text('{"kind":"step","t":0.5,"step":2,"loss":2.0}\n')
    run = toyspec.start_run(tmp_path, run_id="a", exist="resume", config={"lr": 0.1})
    run.step(loss=3.0, step=3)
    run.run_end()
    kinds = [item.kind for item in toyspec.read(run.events_path) if isinstance(item, toyspec.Record)]
    assert ["step", "run_resume", "run_start", "step", "run_end"] == kinds
    [row] = toyspec.list_runs(str(tmp_path))
    assert ("a", {"lr": 0.1}) == (row.facts.run_id, row.start["config"])


def test_settings_of_a_resumption_are_over_those_of_a_later_start(tmp_path: Path) -> None:
    """Lists and facts have the id and settings of the first run_start, wherever it is; and settings without one."""
    resume = '{"kind":"run_resume","t":1.0,"from_step":1,"config":{"lr":2}}\n'
    start = '{"kind":"run_start","schema":"toy/v1","t":2.0,"run_id":"r","config":{"lr":1,"b":3}}\n'
    for name, text in (("a", resume + start), ("b", resume)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").write_text('{"kind":"step","t":0.5,"step":1,"loss":2.0}\n' + text)
    first, second = sorted(toyspec.list_runs(str(tmp_path)), key=lambda run: run.path)
    assert ("r", {"lr": 2, "b": 3}) == (first.facts.run_id, first.start["config"])
    assert (None, {"lr": 2}) == (second.facts.run_id, second.start["config"])
