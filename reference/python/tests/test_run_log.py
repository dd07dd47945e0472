"""Tests of the questions that RunLog answers about a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import toyspec
from toyspec.errors import (
    DamagedStreamError,
    RunStartMissingError,
    StreamMissingError,
    StreamReplacedError,
    StreamUnreadableError,
)
from toyspec.generated.toy_v1 import RunStart, Step
from toyspec.runs.run_log import RunLog

START: dict[str, Any] = {
    "kind": "run_start",
    "schema": "toy/v1",
    "t": 0.0,
    "run_id": "llama-20260531-001",
    "git": {"sha": "abc"},
    "backend": {"kind": "cpu"},
    "model": {"arch": "llama"},
    "config": {"steps": 3, "lr": 0.001},
}


def _step(number: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "step", "t": float(number), "step": number, **fields}


def _end(**fields: Any) -> dict[str, Any]:
    return {"kind": "run_end", "t": 9.0, "reason": "completed", **fields}


def _resume(from_step: int) -> dict[str, Any]:
    return {"kind": "run_resume", "t": 5.0, "from_step": from_step}


def _bundle(run: Path, *events: dict[str, Any], tail: bytes = b"") -> Path:
    run.mkdir(parents=True, exist_ok=True)
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    (run / "events.jsonl").write_bytes(lines + tail)
    return run


LOSSES = [_step(1, phase="train", loss=3.0), _step(2, loss=2.5), _step(3, loss=2.0)]


def test_minimal_complete_run(tmp_path: Path) -> None:
    """Settings, steps, curve, end and final loss of a run as small as a complete one can be."""
    run = _bundle(tmp_path / "r", START, *LOSSES, _end(final_step=3, final_loss=1.75, exit_code=0))
    log = RunLog.open(run)

    assert str(run) == log.dir
    assert (log.dir, log.loss_curve) == ((by_stream := RunLog.open(run / "events.jsonl")).dir, by_stream.loss_curve)
    assert START == log.config.value
    assert isinstance(log.config.event, RunStart)
    assert "llama-20260531-001" == log.run_id
    assert [3.0, 2.5, 2.0] == log.loss_curve
    assert [(1, 3.0), (2, 2.5), (3, 2.0)] == log.loss_by_step
    assert [1, 2, 3] == [record["step"] for record in log.steps]
    assert Step(t=2.0, step=2, loss=2.5) == log.steps[1].event
    assert log.run_end is not None
    assert "completed" == log.run_end["reason"]
    assert 1.75 == log.final_loss
    assert ("complete", 5) == (log.report.state, log.report.records)


def test_torn_run_is_a_run(tmp_path: Path) -> None:
    """A crash leaves no run_end and half a line: the last loss replaces it, and the report shows it."""
    log = RunLog.open(_bundle(tmp_path / "r", START, *LOSSES, tail=b'{"kind":"st'))
    assert (None, 2.0, "torn") == (log.run_end, log.final_loss, log.report.state)
    assert log.report.fragment is not None
    assert 11 == log.report.fragment.length
    assert 3 == len(log.steps)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([*LOSSES, _end(final_loss=1.0)], 1.0),
        ([*LOSSES, _end()], 2.0),
        ([*LOSSES, _end(final_loss=None)], None),
        ([*LOSSES, _end(final_loss="low")], 2.0),
        ([*LOSSES, _step(4, loss=None)], None),
        ([*LOSSES, _step(4)], 2.0),
        ([*LOSSES, _step(1, phase="decode", loss=9.0)], 2.0),
        ([_step(1, loss=7)], 7.0),
        ([_step(1, loss=True)], None),
        ([_end()], None),
        ([], None),
        ([*LOSSES, _resume(1)], 3.0),
        ([*LOSSES, _resume(1), _step(2, loss=1.5)], 1.5),
        ([*LOSSES, _resume(0)], None),
    ],
)
def test_final_loss(tmp_path: Path, events: list[dict[str, Any]], expected: float | None) -> None:
    """run_end's word counts, then the last loss of the latest attempt; null is not finite, never zero."""
    assert expected == RunLog.open(_bundle(tmp_path / "r", START, *events)).final_loss


def test_curve_has_what_was_measured_in_the_latest_attempt(tmp_path: Path) -> None:
    """Superseded steps, other phases and steps without a loss are not part of it; a null loss is."""
    events = [
        *LOSSES,
        _step(4),
        _resume(2),
        _step(3, loss=None),
        _step(1, phase="decode", loss=1.0),
        _step(4, loss="x"),
    ]
    log = RunLog.open(_bundle(tmp_path / "r", START, *events))
    assert [3.0, 2.5, None] == log.loss_curve
    assert [(1, 3.0), (2, 2.5), (3, None)] == log.loss_by_step
    assert [1, 2, 3, 1, 4] == [record["step"] for record in log.steps]


@pytest.mark.parametrize(
    "events",
    [
        [START, *LOSSES],
        [_step(1, loss=4.0), START, *LOSSES],
        [START, *LOSSES, _resume(2), _step(3, loss=None)],
        [START, _step(10**30, loss=1.5), _step(10**30 + 1, loss=None)],
    ],
)
def test_losses_that_are_kept_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[dict[str, Any]]
) -> None:
    """Whether the losses are kept when a run is opened, or read again, changes nothing."""
    run = _bundle(tmp_path / "r", *events)
    kept = RunLog.open(run)
    monkeypatch.setattr("toyspec.runs.run_log._MOST_KEPT", 0)
    read = RunLog.open(run)
    assert (read.loss_by_step, read.loss_curve, read.final_loss) == (
        kept.loss_by_step,
        kept.loss_curve,
        kept.final_loss,
    )


def test_losses_are_read_once_if_the_run_was_opened_alone(tmp_path: Path) -> None:
    """``open`` keeps them; ``scan``, which may find many runs, does not."""
    run = _bundle(tmp_path / "r", START, *LOSSES)
    opened, (scanned,) = RunLog.open(run), RunLog.scan(tmp_path)
    stream = run / "events.jsonl"
    stream.write_text(stream.read_text().replace("2.5", "7.5"))
    assert ([3.0, 2.5, 2.0], [3.0, 7.5, 2.0]) == (opened.loss_curve, scanned.loss_curve)


def test_the_curve_is_that_of_the_own_phase_of_the_run(tmp_path: Path) -> None:
    """A step without a phase is of the phase of run_start, and so is one whose phase is none."""
    events = [_step(1, loss=1.0), _step(2, phase="warmup", loss=2.0), _step(1, phase="train", loss=3.0)]
    log = RunLog.open(_bundle(tmp_path / "r", {**START, "phase": "eval"}, *events, _step(-1, loss=1.0)))
    assert ([1.0, 2.0], 2.0, 4) == (log.loss_curve, log.final_loss, len(log.steps))


def test_run_start_of_an_older_producer_is_enough(tmp_path: Path) -> None:
    """A run_start without schema or run_id is read as far as possible."""
    log = RunLog.open(_bundle(tmp_path / "r", {"kind": "run_start"}, _step(1, loss=1.0)))
    assert (None, None, 1.0) == (log.run_id, log.config.event, log.final_loss)


def test_first_run_start_and_last_run_end_count(tmp_path: Path) -> None:
    """Repetitions are for the checker; the log of such a run can still be read."""
    second = {**START, "run_id": "second"}
    log = RunLog.open(_bundle(tmp_path / "r", START, second, _end(final_loss=1.0), _end(final_loss=2.0)))
    assert ("llama-20260531-001", 2.0) == (log.run_id, log.final_loss)


def test_log_shows_the_run_as_it_was_opened(tmp_path: Path) -> None:
    """What is appended after opening is not in the steps, nor does it supersede any."""
    run = _bundle(tmp_path / "r", START, *LOSSES)
    log = RunLog.open(run)
    with (run / "events.jsonl").open("a") as file:
        file.write("{\n" + json.dumps(_resume(0)) + "\n")
    assert [1, 2, 3] == [record["step"] for record in log.steps]
    assert [1, 2, 3] == [step for step, _ in log.loss_by_step]


@pytest.mark.parametrize("events", [[], [{**START, "run_id": "other"}, *LOSSES], [START, *LOSSES[:2]]])
def test_steps_of_a_replaced_run_are_refused(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    """Another run at the path does not pass for the one that was opened."""
    log = RunLog.open(_bundle(tmp_path / "r", START, *LOSSES))
    _bundle(tmp_path / "r", *events)
    with pytest.raises(StreamReplacedError, match="the stream was replaced"):
        _ = log.steps
    (tmp_path / "r" / "events.jsonl").unlink()
    with pytest.raises(StreamMissingError):
        _ = log.loss_curve


def test_missing_stream_and_missing_run_start(tmp_path: Path) -> None:
    """Both errors have their own type, and name the stream."""
    stream = tmp_path / "r" / "events.jsonl"
    with pytest.raises(StreamMissingError, match="No such file"):
        RunLog.open(tmp_path / "r")
    _bundle(tmp_path / "r", *LOSSES)
    with pytest.raises(RunStartMissingError) as caught:
        RunLog.open(str(tmp_path / "r"))
    assert f"{stream}: no run_start" == str(caught.value)
    stream.rename(tmp_path / "r" / "metrics.jsonl")
    with pytest.raises(StreamMissingError):
        RunLog.open(tmp_path / "r")


def test_malformed_line_names_path_and_line(tmp_path: Path) -> None:
    """The error of a damaged run begins with the place."""
    run = _bundle(tmp_path / "r", START, LOSSES[0], tail=b"{]\n")
    with pytest.raises(DamagedStreamError) as caught:
        RunLog.open(run)
    assert str(caught.value).startswith(f"{run / 'events.jsonl'}:3: invalid-json: ")


# scan


def _names(runs: list[RunLog]) -> list[str]:
    return [os.path.basename(run.dir) for run in runs]


def test_scan_lists_the_best_run_first(tmp_path: Path) -> None:
    """Least final loss first, equal ones by name, those without one last; other files and directories do not count."""
    for name, loss in (("c", 2.0), ("b", 0.0), ("a", 2.0), ("e", None), ("d", -1.5)):
        _bundle(tmp_path / name, START, _end(final_loss=loss))
    _bundle(tmp_path / "f", START)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    _bundle(tmp_path / "deep" / "er", START)
    assert ["d", "b", "a", "c", "e", "f"] == _names(RunLog.scan(tmp_path))


def test_scan_leaves_out_a_run_that_has_no_record_yet(tmp_path: Path) -> None:
    """A run that was killed at its start does not keep the others from being listed."""
    _bundle(tmp_path / "a", START)
    _bundle(tmp_path / "b", tail=b'{"kind":"run_st')
    assert ["a"] == _names(RunLog.scan(tmp_path))


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_scan_lists_a_linked_run_once(tmp_path: Path) -> None:
    """A link `latest` beside the runs is not a run of its own; a run that is kept elsewhere is one."""
    _bundle(tmp_path / "runs" / "a", START)
    _bundle(tmp_path / "far", START)
    (tmp_path / "runs" / "0-latest").symlink_to("a")
    (tmp_path / "runs" / "z").symlink_to(tmp_path / "far")
    (tmp_path / "runs" / "dangling").symlink_to("nowhere")
    assert ["a", "z"] == _names(RunLog.scan(tmp_path / "runs"))


def test_one_bad_run_does_not_keep_the_others_from_being_listed(tmp_path: Path) -> None:
    """It is left out, and a warning says why."""
    _bundle(tmp_path / "a", START)
    _bundle(tmp_path / "b", START, tail=b"{\n")
    with pytest.warns(UserWarning, match=r"run left out: .*events.jsonl:2: invalid-json"):
        assert ["a"] == _names(RunLog.scan(tmp_path))


def test_scan_raises_for_missing_root_and_damage(tmp_path: Path) -> None:
    """Who wants every run or none gets the error."""
    with pytest.raises(StreamMissingError, match="no such directory"):
        RunLog.scan(tmp_path / "runs")
    _bundle(tmp_path / "runs" / "b", START, tail=b"{\n")
    with pytest.raises(DamagedStreamError):
        RunLog.scan(tmp_path / "runs", on_error="raise")
    _bundle(tmp_path / "runs" / "b", _step(1))
    with pytest.raises(RunStartMissingError):
        RunLog.scan(str(tmp_path / "runs"), on_error="raise")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_scan_does_not_wait_for_a_fifo(tmp_path: Path) -> None:
    """A stream that was found, not named, is a regular file or an error."""
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "events.jsonl")
    with pytest.raises(StreamUnreadableError, match="not a regular file"):
        RunLog.scan(tmp_path, on_error="raise")


def test_most_early_records_are_kept_and_further_ones_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resumed run that logs without end before a step that goes back keeps the last, and says what it lacks."""
    monkeypatch.setattr("toyspec.writing.run_stream._MOST_EARLY", 3)
    with toyspec.start_run(tmp_path, run_id="a") as run:
        for step in range(1, 11):
            run.step(step, loss=1 / step)
    with toyspec.start_run(tmp_path, run_id="a", exist="resume") as run:
        for part in range(5):
            run.log({f"part/{part}": part})
        run.step(6, loss=0.5)
    assert ["step", "loss", "part/2", "part/3", "part/4"] == list(toyspec.history(tmp_path / "a"))
    notes = [record.value["text"] for record in toyspec.read(tmp_path / "a") if record.kind == "note"]
    assert any("what was logged before the first step (2 records)" in text for text in notes)
    assert "more than 3 were logged before the first step" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "resumptions"),
    [
        (lambda run: run.log({"held": 0.5}, step=12, phase="eval"), [10, 2]),
        (lambda run: run.eval("held", step=12, loss=0.5), [10, 2]),
        (lambda run: run.step(12, phase="eval", loss=0.5), [10, 2]),
        (lambda run: (run.run_resume(8), run.log({"held": 0.5}, step=12, phase="eval")), [8, 2]),
        (lambda run: (run.run_resume(8), run.step(12, phase="eval", loss=0.5)), [8, 2]),
        (lambda run: (run.log({"held": 0.5}, step=12, phase="eval"), run.run_resume(2)), [10, 2]),
        (lambda run: (run.log({"held": 0.5}, step=12, phase="eval"), run.run_resume(5)), [10, 5, 2]),
    ],
)
def test_what_a_resumed_run_logs_before_a_step_that_goes_back_is_kept(
    tmp_path: Path, before: Any, resumptions: list[int]
) -> None:
    """However it was resumed, what it logged after the new place is written again there, and not superseded."""
    with toyspec.start_run(tmp_path, run_id="a") as run:
        for step in range(1, 11):
            run.step(step, loss=1 / step)
    with toyspec.start_run(tmp_path, run_id="a", exist="resume") as run:
        before(run)
        run.step(3, loss=0.1)
        run.step(4, loss=0.1)
    records = [record.value for record in toyspec.read(tmp_path / "a")]
    assert resumptions == [value["from_step"] for value in records if value["kind"] == "run_resume"]
    last = max(number for number, value in enumerate(records) if value["kind"] == "run_resume")
    assert [12, 3, 4] == [value["step"] for value in records[last:] if "step" in value]
    assert [] == toyspec.check(tmp_path / "a").files[0].findings


def test_what_was_logged_before_the_first_step_is_not_written_again_by_a_later_resumption(tmp_path: Path) -> None:
    """After the first step a program that resumes repeats what it supersedes itself."""
    with toyspec.start_run(tmp_path, run_id="a") as run:
        for step in range(1, 11):
            run.step(step, loss=1 / step)
    with toyspec.start_run(tmp_path, run_id="a", exist="resume") as run:
        run.log({"held": 0.5}, step=12, phase="eval")
        run.step(11, loss=0.1)
        run.run_resume(9)
        run.step(10, loss=0.1)
    assert 1 == sum(record.kind == "scalars" for record in toyspec.read(tmp_path / "a"))
