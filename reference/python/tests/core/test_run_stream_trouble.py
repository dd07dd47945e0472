"""Runs in trouble: systems that fail, for a while or for good, and records that are invalid."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from files import content
from run_streams import EVERY_FAILURE, START, Failure, kinds, leave_by, with_stream
from toyspec.core.checker.checking import check
from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SystemCalls
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import FailingCalls


def write_run(directory: Path, failing: FailingCalls, on_error: Literal["disable", "raise"]) -> list[str]:
    """Write a run of every sort of call; return the kinds that were acknowledged as written."""
    acknowledged = []
    with contextlib.suppress(OSError), RunWriter(directory, on_error=on_error, calls=failing.calls) as run:
        calls: list[tuple[str, Callable[[], object]]] = [
            ("run_start", run.run_start),
            ("step", lambda: run.step(loss=0.5)),
            ("step", lambda: run.step(loss=1, extra={"a": 1})),
            ("note", lambda: run.note("x" * 100)),
            ("gpu", lambda: run.write({"kind": "gpu"})),
            ("step", run.step),
        ]
        for kind, call in calls:
            dropped = run.dropped
            with contextlib.suppress(OSError, InvalidEventError):
                call()
                if run.active and run.dropped == dropped:
                    acknowledged.append(kind)
    return acknowledged


@EVERY_FAILURE
def test_no_failing_call_ends_the_program_or_spoils_the_stream(
    tmp_path: Path, failure: Failure, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever call fails: acknowledged records stay, the stream stays readable, standard error says what happened."""
    for at in itertools.count(1):
        directory = tmp_path / str(at)
        path = with_stream(directory, START)
        failing = failure.at(at)
        acknowledged = write_run(directory, failing, failure.on_error)
        said = capfd.readouterr().err.splitlines()
        if not failing.was_hit:
            assert (1, 7) == (len(said), len(list(read(path))))
            assert f"toyspec: an earlier log was kept: {path} is now {path}.prev" == said[0]
            break
        if path.exists() and path.read_bytes() != START:
            found = [record.kind for record in read(path)]
            rest = iter(found)
            assert all(kind in rest for kind in acknowledged)
            assert all(finding.severity != "error" for finding in check(path).files[0].findings)
        assert START in (content(str(path)), content(f"{path}.prev"))
        is_reported = any("No space left" in line and str(path) in line for line in said)
        closes_replaced_stream = failing.made[at - 1] == "close"
        assert failure.on_error == "raise" or is_reported or closes_replaced_stream
    assert at > 20


class Disk:
    """A disk that may be full."""

    is_full = False

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write, or say that there is no room."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data)


def test_writing_goes_on_when_a_failure_has_passed(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A disk that is full for a while loses the records of that while; the stream and standard error say how many."""
    disk = Disk()
    with RunWriter(directory, calls=SystemCalls(write=disk.write)) as run:
        run.run_start()
        run.step(loss=0.5)
        disk.is_full = True
        for _ in range(64):
            run.step(loss=0.5)
        assert (True, 64) == (run.active, run.dropped)
        disk.is_full = False
        run.step(loss=0.25)
        assert 64 == run.dropped
    assert ["run_start", "step", "step", "note", "run_end"] == kinds(run)
    _, _, step, note, end = read(run.events_path)
    assert (66, 66) == (step["step"], end["final_step"])
    assert "64 records were dropped here: No space left on device" == note["text"]
    full, room, total = capfd.readouterr().err.splitlines()
    assert f"toyspec: {run.events_path}: No space left on device; records are dropped until writing works again" in full
    assert room.endswith("writing works again; 64 records were dropped here: No space left on device")
    assert total.endswith("64 records were not written in total")


def test_what_was_dropped_before_run_start_fits_has_its_cause(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is valid without it: it is kept, and comes before the first record that fits; the note says why."""
    disk = Disk()
    disk.is_full = True
    with RunWriter(directory, calls=SystemCalls(write=disk.write)) as run:
        run.run_start()
        assert (True, 1) == (run.active, run.dropped)
        run.step(loss=0.5)
        run.step(loss=0.5)
        disk.is_full = False
        run.step(loss=0.25)
        assert 2 == run.dropped
    assert ["run_start", "step", "note", "run_end"] == kinds(run)
    assert "2 records were dropped here: No space left on device" == list(read(run.events_path))[2]["text"]
    assert "writing works again; 2 records were dropped here: No space left on device\n" in capfd.readouterr().err


def test_an_outage_is_noted_before_the_end(directory: Path) -> None:
    """What was lost last is in the stream as well, since nothing may follow run_end."""
    failing = FailingCalls(at=3, error=errno.ENOSPC, only="write")
    with RunWriter(directory, calls=failing.calls) as run:
        run.run_start()
        run.step()
        run.step()
    assert ["run_start", "step", "note", "run_end"] == kinds(run)
    assert "1 record was dropped here: No space left on device" == list(read(run.events_path))[2]["text"]


def test_after_a_failure_that_cannot_pass_calls_do_nothing(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An input or output error ends the log, not the training; every record that is missing is counted."""
    failing = FailingCalls(at=2, error=errno.EIO, only="write")
    with RunWriter(directory, calls=failing.calls) as run:
        run.run_start()
        for _ in range(3):
            run.step(loss=0.5)
        run.step("misuse is not noticed any more")  # type: ignore[arg-type]
        assert (False, 4) == (run.active, run.dropped)
    assert ["run_start"] == kinds(run)
    why, total = capfd.readouterr().err.splitlines()
    assert f"toyspec: {run.events_path}: closed after an error: a line could not be written (Input/output error)" == why
    assert total.endswith("4 records were not written in total")
    RunWriter(directory, exist="resume", on_error="raise").close()


def test_an_invalid_record_ends_no_training(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Once the run has started, an invalid record is left out, counted, and said once; before, it is an error."""
    with pytest.raises(InvalidEventError, match="/run_id"), RunWriter(directory) as run:
        run.write({"kind": "run_start", "schema": "toy/v1", "run_id": 3})
    assert not directory.exists()
    with RunWriter(directory) as run:
        run.run_start()
        for _ in range(3):
            run.eval(None)  # type: ignore[arg-type]
        run.tap("r", step=-1)
        for step in (2, 2, 1):
            run.step(step, loss=0.5)
    run.note("too late")
    notes = [record for record in read(run.directory) if record.kind == "note"]
    assert ["run_start", *["note"] * 2, "step", "note", "note", "run_end"] == kinds(run)
    assert 7 == run.dropped
    assert 6 == sum(sum(note.get("dropped", {}).values()) for note in notes)
    said = capfd.readouterr().err
    assert 1 == said.count("eval is invalid")
    assert 1 == said.count("in phase train: step numbers must increase")


@pytest.mark.parametrize("start", ["refused", "failed", "closed"])
@pytest.mark.parametrize("earlier", [b"", START])
def test_a_start_that_comes_to_nothing_leaves_nothing(tmp_path: Path, start: str, earlier: bytes) -> None:
    """No file and no directory is new, and an earlier log has its name."""
    directory = tmp_path / "runs/r"
    if earlier:
        with_stream(directory, earlier)
    calls = FailingCalls(at=1, error=errno.EIO, only="write", lasting="for-ever").calls
    run = RunWriter(directory, calls=calls if start == "failed" else SystemCalls())
    if start == "refused":
        with pytest.raises(InvalidEventError):
            run.write({"kind": "run_start", "schema": "toy/v1", "run_id": 3})
    elif start == "failed":
        run.run_start()
    run.close()
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert (["runs", "runs/r", "runs/r/events.jsonl"] if earlier else []) == found
    if earlier:
        assert earlier == (directory / "events.jsonl").read_bytes()


def nested(depth: int) -> Any:
    """Return *depth* arrays inside one another."""
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    ("extra", "fact"), [({"a": nested(70)}, "nested deeper than 64"), ({"a": "x" * 2**24}, "the limit is 16777216")]
)
def test_a_record_beyond_a_limit_is_left_out(
    directory: Path, extra: dict[str, Any], fact: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A value that is too deep or too long is left out alone, with one line for its name; the log goes on."""
    run = RunWriter(directory)
    run.run_start()
    for _ in range(2):
        run.eval("x", loss=0.5, extra=extra)
    run.step()
    assert (True, 0, {"extra/a": 2}) == (run.active, run.dropped, run.left_out)
    assert ["run_start", "eval", "note", "eval", "step"] == kinds(run)
    said = capfd.readouterr().err
    assert (1, True) == (said.count("is left out"), fact in said)
    run.close()
    strict = RunWriter(directory, on_error="raise")
    strict.run_start()
    with pytest.raises(RecordRefusedError, match=fact):
        strict.eval("x", extra=extra)


def test_a_failing_end_does_not_hide_the_exception(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """When run_end cannot be written either, the exception of the block is the one that comes out."""
    for error, raised in ((ValueError("the real one"), ValueError), (None, OSError)):
        failing = FailingCalls(at=3, error=errno.EIO, lasting="for-ever", only="write")
        with pytest.raises(raised, match=r"the real one|Input/output"):
            leave_by(error, RunWriter(directory, on_error="raise", calls=failing.calls))
        said = capfd.readouterr().err
        assert (error is not None) == ("run_end could not be written: Input/output error" in said)


def test_an_error_of_close_is_reported(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A system that reports at close that it lost data is heard."""
    calls = SystemCalls(close=FailingCalls(at=3, error=errno.EDQUOT, only="close").calls.close)
    run = RunWriter(directory, calls=calls)
    run.run_start()
    run.step()
    run.run_end()
    assert "Disk quota exceeded; logging stops" in capfd.readouterr().err
