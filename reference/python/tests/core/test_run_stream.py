"""Runs in trouble: streams that are there already, systems that fail, blocks that are left by exceptions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toyspec
from files import content
from run_streams import START, kinds, leave_by, with_stream
from toyspec.core.checker.checking import check
from toyspec.core.errors import StreamRefusedError
from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.reading.reader import read
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import ManualClock

STEP = b'{"kind":"step","t":1.5,"step":4,"loss":0.5}\n'
END = b'{"kind":"run_end","t":1.5,"reason":"completed"}\n'


@pytest.mark.parametrize("on_error", ["disable", "raise"])
def test_fail_refuses_an_existing_stream(directory: Path, on_error: Any) -> None:
    """Who asks for failure gets it, also where trouble is to be survived."""
    path = with_stream(directory, START)
    with pytest.raises(FileExistsError):
        RunWriter(directory, exist="fail", on_error=on_error)
    assert START == path.read_bytes()


@pytest.mark.parametrize("fragment", [b"", b'{"kind":"step","t":1.6', STEP.rstrip(), b"\0\0\0", b"\xff"])
def test_resume_goes_on_behind_the_last_record(directory: Path, fragment: bytes, capfd: Any) -> None:
    """Time, steps and id go on; what a dead writer left behind the last line is kept in a file beside."""
    path = with_stream(directory, START + STEP + fragment)
    clock = ManualClock()
    run = RunWriter(directory, exist="resume", on_error="raise", clock=clock)
    assert (run.run_id, run.last_step, run.resumes) == ("r", 4, True)
    clock.advance(0.5)
    calls: list[Callable[[], object]] = [run.step, run.run_start, run.run_end, lambda: run.write({"kind": "gpu"})]
    for call in calls:
        with pytest.raises(InvalidEventError, match="run_resume"):
            call()
    run.run_resume(2)
    run.step(loss=0.25)
    run.run_end()
    data = path.read_bytes()
    assert data.startswith(START + STEP + b'{"kind":"run_resume","t":2.0,"from_step":2,')
    assert b'\n{"kind":"step","t":2.0,"step":3,"loss":0.25}\n{"kind":"run_end"' in data
    assert ("complete", True) == (check(path).files[0].state, check(path).files[0].valid)
    aside = Path(f"{path}.torn-{len(START + STEP)}")
    assert fragment == (aside.read_bytes() if fragment else b"")
    assert bool(fragment) == aside.exists() == ("were moved to" in capfd.readouterr().err)


@pytest.mark.parametrize("data", [None, b"", b"\n", b'{"kind":"run_st'])
def test_resume_of_nothing_is_a_start(directory: Path, data: bytes | None) -> None:
    """A job that may be its own first attempt resumes if there is no record yet."""
    if data is not None:
        with_stream(directory, data)
    with RunWriter(directory, exist="resume", on_error="raise") as run:
        assert not run.resumes
        run.run_start()
    assert ["run_start", "run_end"] == kinds(run)


@pytest.mark.parametrize(
    ("data", "reason", "fact"),
    [
        (START + b"{broken\n" + STEP, "damaged", "line 2 is damaged (invalid-json"),
    ],
)
def test_resume_refuses_what_is_damaged(
    directory: Path, data: bytes, reason: str, fact: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stream that has lost a line is left unchanged, with an error or with one line on standard error."""
    path = with_stream(directory, data + b"tail")
    with pytest.raises(StreamRefusedError) as caught:
        RunWriter(directory, exist="resume", on_error="raise")
    assert reason == caught.value.reason
    assert fact in str(caught.value)
    run = RunWriter(directory, exist="resume")
    run.run_start()
    run.step()
    assert (False, 2) == (run.active, run.dropped)
    run.close()
    first, last = capfd.readouterr().err.splitlines()
    assert first.startswith(f"toyspec: {path}: {fact}")
    assert f"toyspec: {path}: 2 records were not written in total" == last
    assert data + b"tail" == path.read_bytes()
    assert ["events.jsonl"] == os.listdir(directory)


@pytest.mark.parametrize("data", [START + END, START + END + STEP])
@pytest.mark.parametrize("on_error", ["disable", "raise"])
def test_a_run_that_has_ended_is_resumed(directory: Path, data: bytes, on_error: Any) -> None:
    """Its next record is a run_resume, after which it is open; the last run_end counts."""
    path = with_stream(directory, data)
    with RunWriter(directory, exist="resume", on_error=on_error) as run:
        with pytest.raises(InvalidEventError, match="write run_resume first"):
            run.note("too early")
        run.run_resume(1)
        run.note("goes on")
    assert path.read_bytes().startswith(data)
    assert ["run_resume", "note", "run_end"] == kinds(run)[-3:]


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, {"reason": "completed", "final_step": 1, "final_loss": 0.5}),
        (KeyError(), {"reason": "errored", "error": "KeyError"}),
        (KeyboardInterrupt(), {"reason": "interrupted", "error": "KeyboardInterrupt"}),
        # A generator that is closed and a task that is cancelled are not errors of the training.
        (GeneratorExit(), {"reason": "interrupted", "error": "GeneratorExit"}),
        (SystemExit(), {"reason": "completed", "exit_code": 0}),
        (SystemExit(259), {"reason": "aborted", "exit_code": 3, "error": "exit status 259"}),
        (SystemExit("no data"), {"reason": "aborted", "exit_code": 1, "error": "no data"}),
    ],
)
def test_leaving_the_block_ends_the_run(directory: Path, error: BaseException | None, ending: dict[str, Any]) -> None:
    """However the block is left, run_end says how, and the exception goes on."""
    run = RunWriter(directory, on_error="raise")
    if error is None:
        leave_by(None, run)
    else:
        with pytest.raises(type(error)) as caught:
            leave_by(error, run)
        assert caught.value is error
    last = list(read(run.events_path))[-1].value
    assert ending == {key: last[key] for key in ending}
    assert ("error" in ending, "exit_code" in ending) == ("error" in last, "exit_code" in last)
    assert [] == check(run.events_path).files[0].findings


def test_an_error_that_cannot_say_what_it_is_ends_the_run(directory: Path) -> None:
    """An exception with a broken str, or a very long one, does not keep run_end from being written."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    for error, text in ((MuteError(), "MuteError"), (ValueError("x" * 10**6), "ValueError: " + "x" * 4084)):
        with pytest.raises(type(error)):
            leave_by(error, RunWriter(directory, on_error="raise"))
        assert text == list(read(directory))[-1]["error"]


def test_a_block_without_records_leaves_none(directory: Path) -> None:
    """A run that never started does not end either; one that was closed or ended by hand gets no second end."""
    with RunWriter(directory, on_error="raise") as run:
        pass
    assert b"" == content(run.events_path)
    with RunWriter(directory, on_error="raise") as run:
        run.run_start()
        run.run_end("aborted")
    assert ["run_start", "run_end"] == kinds(run)
    with RunWriter(directory, on_error="raise") as run:
        run.run_start()
        run.close()
        run.step()
    assert ["run_start"] == kinds(run)


def test_files_of_a_run_follow_no_change_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is the one that it was when the run began: media and artifacts are in its bundle."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "notes.txt").write_text("notes")
    monkeypatch.chdir(tmp_path)
    with toyspec.start_run("runs", run_id="a") as run:
        monkeypatch.chdir("elsewhere")
        run.log({"note": toyspec.File(b"abc", "text/plain")}, step=1)
        run.artifact("notes.txt", copy=True)
    assert ["artifacts", "events.jsonl", "media"] == sorted(os.listdir(tmp_path / "runs" / "a"))
    assert ["notes.txt"] == os.listdir(tmp_path / "elsewhere")
