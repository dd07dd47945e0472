"""A run is sealed at its end, or later, and its seal ends when its stream changes."""

from __future__ import annotations

import contextlib
import errno
import itertools
from pathlib import Path

import pytest

import toyspec
from sealed_runs import broken, write_run
from toyspec.core.checker import check
from toyspec.core.errors import StreamMissingError, StreamRefusedError
from toyspec.core.writing.append_file import AppendFile
from toyspec.core.writing.run_writer import RunWriter
from toyspec.core.writing.sealing import seal
from toyspec.testing import FailingCalls


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give a sealed run."""
    return write_run(tmp_path / "runs" / "demo", is_sealed=True)


@pytest.mark.parametrize("profile", ["metrics", "kaun"])
def test_runs_of_other_profiles_are_sealed_too(tmp_path: Path, profile: str) -> None:
    """A seal does not depend on the profile; a writer that appends ends it and keeps it."""
    if profile == "metrics":
        path = tmp_path / "metrics.jsonl"

        def write(step: int) -> None:
            log = toyspec.MetricsLog.open(path)
            log.record(step=step, wall_time_ms=1.0, loss=1.0, grad_norm=1.0, throughput_samples_per_sec=1.0)
            log.close()

    else:
        made = toyspec.KaunRun.create(tmp_path)
        made.close()
        path = Path(made.directory, "events.jsonl")

        def write(step: int) -> None:
            run = toyspec.KaunRun.load(path.parent)
            assert run is not None
            run.scalars({"loss": 1.0}, step=step)
            run.close()

    write(1)
    told: list[tuple[int, int]] = []
    sealed = seal(path.parent, on_progress=lambda *each: told.append(each))
    assert ({sealed.bytes}, (sealed.bytes, sealed.bytes)) == ({known for _, known in told}, max(told))
    assert [] == broken(path)
    write(2)
    assert ["SHA256SUMS.prev"] == [found.name for found in path.parent.glob("SHA256SUMS*")]
    assert check(path).files[0].valid


def test_replaced_run_keeps_its_seal_aside_and_a_refused_start_leaves_it(run: Path) -> None:
    """A new run with the id ends the seal; a start that is refused, or that writes nothing, leaves it in force."""
    before = (run / "SHA256SUMS").read_bytes()
    RunWriter(run, exist="resume").close()
    assert [] == broken(run)
    with pytest.raises(FileExistsError):
        RunWriter(run, exist="fail")
    RunWriter(run).close()
    assert [] == broken(run)
    write_run(run)
    assert check(run).files[0].valid
    assert (before, False) == ((run / "SHA256SUMS.prev").read_bytes(), (run / "SHA256SUMS").exists())
    write_run(run, is_sealed=True)
    assert [] == broken(run)
    assert b"events.jsonl.prev-1" in (run / "SHA256SUMS").read_bytes()


def test_seal_survives_each_failing_system_call(run: Path) -> None:
    """Whichever call fails when a run is sealed again, one of the two seals is in force, and no part of one is left."""
    (run / "notes").write_bytes(b"")
    for at in itertools.count(1):
        failing = FailingCalls(at=at, error=errno.ENOSPC)
        with contextlib.suppress(OSError):
            seal(run, existing="keep", calls=failing.calls)
            assert not failing.was_hit or failing.made[-1] == "close"
        assert [] == broken(run)
        assert not (run / "SHA256SUMS.new").exists()
        if not failing.was_hit:
            break
    assert at > 5


def test_what_is_not_sealed(tmp_path: Path) -> None:
    """A run that is torn, damaged, live, foreign or sealed already is refused, and nothing is written."""
    run = write_run(tmp_path / "r")
    whole = (run / "events.jsonl").read_bytes()
    for data, reason in (
        (whole[:-1], "incomplete"),
        (whole[:30] + b"\n" + whole, "damaged"),
        (b"[1]\n" * 9, "damaged"),
    ):
        (run / "events.jsonl").write_bytes(data)
        with pytest.raises(StreamRefusedError) as refused:
            seal(run)
        assert reason == refused.value.reason
    (run / "events.jsonl").write_bytes(whole)
    writer = AppendFile.reopen(str(run / "events.jsonl"))
    with pytest.raises(StreamRefusedError, match="another writer"):
        seal(run)
    writer.close()
    (run / "copy.jsonl").write_bytes(whole)
    with pytest.raises(StreamRefusedError, match="not in a run directory"):
        seal(run / "copy.jsonl")
    for missing in (tmp_path / "nothing", tmp_path):
        with pytest.raises(StreamMissingError):
            seal(missing / "events.jsonl" if missing.name == "nothing" else missing)
    assert not (run / "SHA256SUMS").exists()
    seal(run)
    with pytest.raises(FileExistsError):
        seal(run)


def test_run_whose_other_processes_still_write_is_not_sealed(tmp_path: Path) -> None:
    """The seal would not hold for long: the log that is unfinished, or is being written, is named."""
    run = write_run(tmp_path / "r")
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    for rank in (1, 2):
        (run / f"events.rank-{rank}.jsonl").write_bytes(b"".join(lines[:-1] if rank == 2 else lines))
    with pytest.raises(StreamRefusedError, match="the run is not complete: it has no run_end") as refused:
        seal(run)
    assert ("incomplete", str(run / "events.rank-2.jsonl")) == (refused.value.reason, refused.value.filename)
    writer = AppendFile.reopen(str(run / "events.rank-1.jsonl"))
    with pytest.raises(StreamRefusedError, match="another writer has it open") as refused:
        seal(run)
    assert ("locked", str(run / "events.rank-1.jsonl")) == (refused.value.reason, refused.value.filename)
    writer.close()
    assert not (run / "SHA256SUMS").exists()
    (run / "events.jsonl").unlink()
    (run / "metrics.jsonl").write_bytes(b'{"step":1,"wall_time_ms":1.0,"loss":1.0}\n')
    with pytest.raises(StreamRefusedError, match="the run is not complete: it has no run_end"):
        seal(run)


def test_run_that_may_only_be_read_is_sealed_unless_it_is_written(tmp_path: Path) -> None:
    """Without the right to open the log for writing, its lock is looked at; sealing holds none afterwards."""
    run = write_run(tmp_path / "r")
    with contextlib.closing(AppendFile.reopen(str(run / "events.jsonl"))), pytest.raises(StreamRefusedError) as refused:
        seal(run, calls=FailingCalls(at=1, error=errno.EACCES, only="open").calls)
    assert ("locked", "another writer has it open") == (refused.value.reason, refused.value.strerror)
    seal(run, calls=FailingCalls(at=1, error=errno.EACCES, only="open").calls)
    assert [] == broken(run)
    AppendFile.reopen(str(run / "events.jsonl")).close()


def test_log_of_no_known_profile_is_not_sealed(tmp_path: Path) -> None:
    """Nothing says whether it is complete."""
    (tmp_path / "events.jsonl").write_bytes(b'{"epoch":1,"x":2}\n')
    with pytest.raises(StreamRefusedError, match="not a training log of a known profile"):
        seal(tmp_path)
