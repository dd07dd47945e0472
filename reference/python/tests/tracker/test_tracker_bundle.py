from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from logged_runs import events, findings, kinds, steps
from torch_like import Module, Parameter, cuda
from toyspec.tracker import TrainingLogger


def logger(directory: Path, **options: Any) -> TrainingLogger:
    """Return a logger that writes its bundle below *directory* and shows nothing."""
    return TrainingLogger(**{"runs_root": directory, "run_name": "run", "print_every": 0, **options})


def test_run_begins_as_every_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its name becomes an id that stays in the root, and settings are redacted."""
    secrets = {"wandb_api_key": "SECRET123", "db": {"password": "hunter2"}, "lr": 1}
    logger(tmp_path, run_name="../../etc", hyperparameters=secrets).finish()
    logger(tmp_path, run_name=None, model={"arch": "llama"}).finish()
    assert ["etc", "llama"] == sorted(path.name.split("-")[0] for path in tmp_path.iterdir())
    assert {"wandb_api_key": "***", "db": {"password": "***"}, "lr": 1} == events(tmp_path / "etc")[0]["config"]
    assert "written as ***: wandb_api_key, db/password;" in capfd.readouterr().err


def test_the_state_of_the_machine_is_a_system_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """log_system writes a system event; the memory of the device is added where it is known and not given."""
    with logger(tmp_path) as made:
        monkeypatch.setitem(sys.modules, "torch", cuda((20, 100)))
        made.log_system(step=1, gpu_util=0.9)
        made.log_system(step=1, memory_used_bytes=5)
        monkeypatch.delitem(sys.modules, "torch")
    first, second = (event for event in events(tmp_path) if event["kind"] == "system")
    assert (80, 100, {"gpu_util": 0.9}) == (first["memory_used_bytes"], first["memory_limit_bytes"], first["extra"])
    assert (5, None) == (second["memory_used_bytes"], second.get("memory_limit_bytes"))


def test_sections_are_regions(tmp_path: Path) -> None:
    """Sections nest as regions, and those still open when the run ends are closed before."""
    made = logger(tmp_path)
    with made.log_section("outer"), made.log_section("inner"):
        pass
    with made.log_section("outer"), made.log_section("inner"):
        made.finish()
    regions = [(event["kind"][7:], event["region"]) for event in events(tmp_path) if "region" in event]
    once = [("enter", "outer"), ("enter", "inner"), ("exit", "inner"), ("exit", "outer")]
    assert (once * 2, []) == (regions, findings(tmp_path))


@pytest.mark.parametrize(
    ("logged", "every", "expected"),
    [
        ([1, 2, 2, 3], 1, ([1, 2, 3], ["scalars"])),
        ([1, 2, 3, 2, 3, 4], 1, ([1, 2, 3, 2, 3, 4], ["run_resume"])),
        ([1, 2, 3, 1, None], 1, ([1, 2, 3, 1, 2], ["run_resume"])),
        ([2, 3, 4, 5, 6, 4, 5, 6], 4, ([4, 4], ["run_resume"])),
        ([0, 1, 2, 0, 1, 2], 1, ([0, 1, 2, 1, 2], ["run_resume", "scalars"])),
        ([5, 5, 5], 1, ([5], ["scalars", "scalars"])),
    ],
)
def test_a_bundle_stays_valid_whatever_steps_come(
    logged: list[int | None], every: int, expected: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step that is logged again is plain values at this step, and going back a run_resume; each is reported once."""
    with logger(tmp_path, record_every=every) as made:
        for step in logged:
            made.log_step(step=step, loss=1.5)
    others = [kind for kind in kinds(tmp_path)[1:-1] if kind != "step"]
    assert (expected, []) == ((steps(tmp_path), others), findings(tmp_path))
    assert len({"scalars", "run_resume"}.intersection(others)) == capsys.readouterr().err.count("toyspec:")


def test_a_torn_run_is_resumed_from_the_step_before_the_first(tmp_path: Path) -> None:
    """With exist="resume" the run goes on behind a run_resume, from the step before the one that is logged first."""
    made = logger(tmp_path)
    for step in (1, 2, 3):
        made.log_step(step=step, loss=float(step))
    assert made._run is not None
    made._run.abandon()
    with logger(tmp_path, exist="resume") as resumed:
        for step in (3, 4):
            resumed.log_step(step=step, loss=float(step))
    assert ["run_start", *["step"] * 3, "run_resume", "step", "step", "run_end"] == kinds(tmp_path)
    assert ([1, 2, 3, 3, 4], []) == (steps(tmp_path), findings(tmp_path))


def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the bundle cannot be made, that is reported once and the training goes on."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with logger(blocked) as made:
        made.log_step(step=1, loss=1.0)
        made.log_validation(val_loss=1.0)
    assert 1 == capsys.readouterr().err.count("the program continues")


def test_gradients_are_left_alone_unless_asked_for(tmp_path: Path) -> None:
    """Without enable_histograms no gradient is looked at."""
    module = Module(weight=Parameter(2))
    module.parameters()[0].grad = object()
    with logger(tmp_path) as made:
        made.log_step(step=50, loss=1.0)
        made.log_gradients(module)
        made.log_gradients(module, step=50)
    assert ["run_start", "step", "run_end"] == kinds(tmp_path)
