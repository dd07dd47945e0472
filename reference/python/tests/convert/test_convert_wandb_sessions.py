"""Tests of W&B runs that were resumed: each process leaves a directory of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conversions import imported, records, scalars
from convert.test_convert_wandb import item, run_file
from toyspec.convert import import_runs
from toyspec.convert.protobuf import field, integer_field
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.reader import read

START = 1790000000


def beginning(start: int, config: dict[str, Any], *, project: str = "p", run: str = "a") -> bytes:
    """Return the run record of a process that starts *start* seconds after the first one."""
    settings = b"".join(field(1, field(1, name) + field(16, json.dumps(value))) for name, value in config.items())
    names = field(1, run) + field(3, project)
    return field(17, names + field(4, settings) + field(17, integer_field(1, START + start)))


def row(clock: int, step: int, loss: float) -> bytes:
    """Return a row that was logged *clock* seconds after the start of the first process."""
    values = {"loss": loss, "_step": step, "_timestamp": START + clock}
    return field(2, b"".join(item(name, json.dumps(value)) for name, value in values.items()))


def session(place: Path, clock: int, *messages: bytes, run: str = "a") -> Path:
    """Write the directory of a process that starts at *clock*, in seconds, and return it."""
    directory = place / f"offline-run-20260922_0800{clock:02}-{run}"
    directory.mkdir(parents=True)
    run_file(directory / f"run-{run}.wandb", *messages)
    return directory


def exit_record(code: int) -> bytes:
    """Return the record of a process that has ended."""
    return field(18, integer_field(1, code))


def two_sessions(place: Path) -> tuple[Path, Path]:
    """Write a run that crashed after step 3, and went on from step 2."""
    first = [beginning(0, {"lr": 0.5, "seed": 1, "_wandb": {}}), *(row(step, step, 4.0 - step) for step in range(4))]
    then = [beginning(10, {"lr": 0.25, "seed": 1}), *(row(10 + step, step, 9.0 - step) for step in (2, 3, 4))]
    return session(place, 1, *first, exit_record(3)), session(place, 11, *then, exit_record(0))


def kept(bundle: str | Path) -> list[tuple[int, float]]:
    """Return step and loss of the latest attempt."""
    events = list(read(str(bundle)))
    attempts = Attempts()
    for event in events:
        attempts.learn(event)
    latest = [record.value for record in attempts.latest(iter(events))]
    return [(value["step"], value["values"]["loss"]) for value in latest if value["kind"] == "scalars"]


def test_sessions_of_a_run_are_one_run(tmp_path: Path) -> None:
    """A run_resume is between them; all rows are there, and readers take the later attempt at steps 2 and 3."""
    two_sessions(tmp_path / "wandb")
    (run,) = imported(tmp_path / "wandb", tmp_path / "runs").runs
    start, *rest = records(run.target)
    assert ("a", {"lr": 0.25, "seed": 1}) == (start["run_id"], start["config"])
    first = [("loss", step, 4.0 - step) for step in range(4)]
    assert [*first, *(("loss", step, 9.0 - step) for step in (2, 3, 4))] == scalars(run.target)
    resumed = {"t": 10.0, "from_step": 1, "reason": "exit code 3", "resumed_at": "2026-09-21T14:13:30Z"}
    assert {"kind": "run_resume", **resumed} == rest[5]
    assert ("completed", 0) == (rest[-1]["reason"], rest[-1]["exit_code"])
    assert [(0, 4.0), (1, 3.0), (2, 7.0), (3, 6.0), (4, 5.0)] == kept(run.target)


def test_every_item_of_resumed_runs_is_in_the_report(tmp_path: Path) -> None:
    """A setting that the later session changed is dropped; the others are carried."""
    two_sessions(tmp_path / "wandb")
    (run,) = imported(tmp_path / "wandb", tmp_path / "runs").runs
    ((loss, place),) = ((loss.cause, example.place) for loss in run.losses for example in loss.examples)
    assert ("no-place", "config/lr, before the run was resumed") == (loss, place)
    # Settings 2 and the one before, values 7, exits 2, the resumption, and of the run its project and W&B's setting.
    assert (15, 14, 0, 1) == (run.items, run.carried, run.changed, run.dropped)
    (left,) = (each["left_out"] for each in records(run.target) if each.get("topic") == "left-out")
    assert {"config/lr": 1} == left
    assert run.notes[0].startswith("the run was resumed at step 2, after step 3: ")


@pytest.mark.parametrize("named", [[0, 1], [1], [0], [1, 0]])
def test_session_that_is_named_brings_the_others(tmp_path: Path, named: list[int]) -> None:
    """The run is the same, by whichever of its directories it is named; naming several makes it once."""
    both = two_sessions(tmp_path / "wandb")
    report = import_runs([both[index] for index in named], tmp_path / "runs")
    assert [{"a"}, len(named)] == [{run.run_id for run in report.runs}, len(report.runs)]
    assert ["converted", *["done-before"] * (len(named) - 1)] == [run.status for run in report.runs]
    assert 7 == len(scalars(report.runs[0].target))
    assert ["a"] == [path.name for path in (tmp_path / "runs").iterdir()]
    (again,) = import_runs([tmp_path / "wandb"], tmp_path / "runs").runs
    assert ("done-before", 7) == (again.status, len(scalars(again.target)))


@pytest.mark.parametrize("first", [0, 1])
def test_session_that_appears_later_is_taken_into_the_run(tmp_path: Path, first: int) -> None:
    """The next import makes the run again, in its place; also if the directory that appears is the older one."""
    both, place = two_sessions(tmp_path / "elsewhere"), tmp_path / "wandb"
    place.mkdir()
    both[first].rename(place / both[first].name)
    (before,) = imported(place, tmp_path / "runs").runs
    both[1 - first].rename(place / both[1 - first].name)
    (after,) = imported(place, tmp_path / "runs").runs
    assert (before.run_id, before.target) == (after.run_id, after.target)
    assert 7 == len(scalars(after.target))
    assert ["a"] == [path.name for path in (tmp_path / "runs").iterdir()]
    assert {"events.jsonl", "events.jsonl.prev", "import.json"} == {path.name for path in Path(after.target).iterdir()}
    (again,) = imported(place, tmp_path / "runs").runs
    assert "done-before" == again.status


def test_runs_with_one_id_in_two_projects_are_two(tmp_path: Path) -> None:
    """W&B's ids are those of a project; so are two directories with other names, or in other places."""
    session(tmp_path / "wandb", 1, beginning(0, {}), row(0, 0, 1.0))
    session(tmp_path / "wandb", 2, beginning(1, {}, project="other"), row(1, 0, 2.0))
    session(tmp_path / "copy", 3, beginning(2, {}), row(2, 0, 3.0))
    report = imported(tmp_path, tmp_path / "runs")
    assert ["a", "a-2", "a-3"] == sorted(run.run_id for run in report.runs)
    assert {1} == {len(scalars(run.target)) for run in report.runs}


def test_session_without_a_readable_start_is_of_the_run_beside_it(tmp_path: Path) -> None:
    """Its first block is damaged, so the run record is lost; the other one says which run it is."""
    first, second = two_sessions(tmp_path / "wandb")
    file = second / "run-a.wandb"
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    (run,) = imported(tmp_path / "wandb", tmp_path / "runs").runs
    assert 7 == len(scalars(run.target))
    (damage,) = [loss for loss in run.losses if loss.cause == "damaged"]
    assert damage.examples[0].place.startswith(f"{second.name}: byte ")
    assert first.is_dir()


@pytest.mark.parametrize(
    ("rows", "from_step"),
    [
        ([row(17, 7, 1.0)], 6),
        ([row(10, 0, 1.0)], 0),
        ([], 3),
        ([field(2, item("loss", "1.0"))], 3),
    ],
)
def test_resumption_is_before_the_first_step(tmp_path: Path, rows: list[bytes], from_step: int) -> None:
    """Nothing is superseded where the steps go on, or where the session has none."""
    session(tmp_path, 1, beginning(0, {}), *(row(step, step, 1.0) for step in range(4)))
    session(tmp_path, 20, beginning(10, {}), *rows)
    (run,) = imported(tmp_path, tmp_path / "runs").runs
    (resume,) = [record for record in records(run.target) if record["kind"] == "run_resume"]
    assert from_step == resume["from_step"]
    assert "reason" not in resume


def test_link_to_the_latest_session_names_the_run(tmp_path: Path) -> None:
    """W&B keeps a link ``latest-run``; the run has the source that it has otherwise."""
    _, second = two_sessions(tmp_path / "wandb")
    try:
        (tmp_path / "wandb" / "latest-run").symlink_to(second.name, target_is_directory=True)
    except OSError:
        pytest.skip("no links here")
    (run,) = imported(tmp_path / "wandb" / "latest-run", tmp_path / "runs").runs
    (again,) = imported(tmp_path / "wandb", tmp_path / "runs").runs
    assert (7, "done-before") == (len(scalars(run.target)), again.status)
