from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logged_runs import events, findings, kinds, steps
from torch_like import Tensor
from toyspec.core.writing.environment import process_index
from toyspec.tracker import LogConfig, TrainingLogger

METRICS = {"loss": 1.5, "lr": 3e-4, "mfu": 0.56}


def logger(directory: Path, **options: Any) -> TrainingLogger:
    """Return a logger that writes its bundle below *directory* and shows nothing."""
    return TrainingLogger(**{"runs_root": directory, "run_name": "run", "print_every": 0, **options})


def test_the_three_line_integration_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names and one call for each step give a bundle that is complete and without a finding."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    logger = TrainingLogger(project="my-project", run_name="experiment-1")
    for step in range(3):
        logger.log_step(step=step, loss=1.5, lr=3e-4, mfu=0.56)
    logger.finish()
    assert tmp_path / "runs/experiment-1/events.jsonl" == next(tmp_path.rglob("events.jsonl"))
    assert ["run_start", "step", "step", "step", "run_end"] == kinds(tmp_path)
    assert [] == findings(tmp_path)


def test_an_unknown_option_is_an_error() -> None:
    """An option that does not exist raises, and a near one is named."""
    with pytest.raises(TypeError, match="TrainingLogger has no option 'print_evry'; did you mean print_every"):
        TrainingLogger(print_evry=5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"log_every": -1}, ValueError, "log_every is -1"),
        ({"record_every": 0}, ValueError, "record_every is 0"),
        ({"print_every": True}, ValueError, "print_every is True"),
        ({"max_wandb_mb": -1.0}, ValueError, "max_wandb_mb is -1.0"),
        ({"exist": "append"}, ValueError, "exist is 'append'"),
        ({"tags": "tpu"}, TypeError, "tags is 'tpu'"),
        ({"config": {"print_every": 5}}, TypeError, "config must be a LogConfig, got dict"),
    ],
)
def test_an_option_that_cannot_be_is_an_error(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """A value that an option cannot have raises before anything is written."""
    with pytest.raises(error, match=message):
        TrainingLogger(**options)


def test_overrides_leave_the_configuration_alone(tmp_path: Path) -> None:
    """Options beside a configuration win, and the configuration can be used again."""
    config = LogConfig("project", "name", ["tag"], print_every=5, runs_root=tmp_path)
    made = TrainingLogger(config, project=None, print_every=7)
    made.finish()
    assert (5, "project", 7, None) == (config.print_every, config.project, made.config.print_every, made.config.project)


@pytest.mark.parametrize(
    ("step", "error"), [(-1, ValueError), (1.0, TypeError), ("1", TypeError), (np.array([1, 2]), TypeError)]
)
def test_a_step_must_be_a_number_of_a_step(step: Any, error: type[Exception], tmp_path: Path) -> None:
    """A step is an integer from 0."""
    with pytest.raises(error):
        logger(tmp_path).log_step(step=step, loss=1.0)


@pytest.mark.parametrize("step", [np.int32(3), np.array(3), True])
def test_a_step_may_be_an_integer_of_any_library(step: Any, tmp_path: Path) -> None:
    """Whatever kind of integer a step is, it is written as a number."""
    with logger(tmp_path) as made:
        made.log_step(step=step, loss=1.0)
    assert [int(step)] == [event["step"] for event in events(tmp_path) if event["kind"] == "step"]
    assert not isinstance(events(tmp_path)[1]["step"], bool)


@pytest.mark.parametrize("value", ["1.5", [1.5], np.array([1.0, 2.0]), object()])
def test_a_metric_must_be_a_number(value: Any, tmp_path: Path) -> None:
    """A metric is a number or an array of one element, and the message names the one that is not."""
    with pytest.raises(TypeError, match="metric 'loss' must be a number or an array of one element"):
        logger(tmp_path).log_step(step=0, loss=value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (np.float32(0.5), 0.5),
        (np.array([0.5]), 0.5),
        (np.int64(3), 3.0),
        (True, 1.0),
        (10**400, None),
        (-(10**400), None),
        (float("nan"), None),
        (Tensor(0.25), 0.25),
    ],
)
def test_a_metric_may_be_a_scalar_of_any_library(value: Any, written: float | None, tmp_path: Path) -> None:
    """Scalars and arrays of one element are numbers; what is not finite is null in the bundle."""
    made = logger(tmp_path)
    made.log_step(step=1, loss=value)
    made.finish()
    assert written == events(tmp_path)[1]["loss"]


def test_steps_are_counted_where_none_is_given(tmp_path: Path) -> None:
    """Without a step its number is one more than the last, from 0."""
    made = logger(tmp_path)
    for step in (None, None, 5, None, 7):
        made.log_step(step=step, loss=1.0)
    made.finish()
    assert [0, 1, 5, 6, 7] == steps(tmp_path)


def test_nothing_is_converted_when_nothing_is_due(tmp_path: Path) -> None:
    """On a step that no place gets, no metric is converted; where several get it, each is converted once."""
    loss = Tensor(1.5)
    made = logger(tmp_path, record_every=10, print_every=20, log_every=50)
    for step in (1, 3, 7, 11, 49, 51):
        made.log_step(step=step, loss=loss)
    assert 0 == loss.conversions
    made.log_step(step=20, loss=loss)
    assert 1 == loss.conversions


def test_only_the_master_process_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another process than the first writes nothing, shows nothing and converts nothing."""
    monkeypatch.setattr("toyspec.tracker.training_logger.process_index", lambda: 3)
    loss = Tensor(1.5)
    with logger(tmp_path, print_every=1, project="p") as made:
        with made.log_section("training"):
            made.log_step(step=0, loss=loss)
        made.log_validation(step=0, val_loss=loss)
        made.log_system(step=0, memory=loss)
    assert ([], 0, ("", "")) == (list(tmp_path.iterdir()), loss.conversions, capsys.readouterr())


def test_every_process_may_log_into_a_bundle_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With master_only=False the other processes write beside the master."""
    assert 0 == process_index()
    for process in (0, 3):
        monkeypatch.setattr("toyspec.tracker.training_logger.process_index", lambda process=process: process)
        logger(tmp_path, master_only=False).finish()
    assert ["run", "run-process3"] == sorted(path.name for path in tmp_path.iterdir())
    assert [] == findings(tmp_path)


def test_a_finished_logger_does_nothing(tmp_path: Path) -> None:
    """After finish() every call is silent, finish() too."""
    made = logger(tmp_path)
    made.log_step(step=1, **METRICS)
    made.finish()
    made.finish()
    loss = Tensor(1.0)
    made.log_step(step=2, loss=loss)
    made.log_validation(step=2, val_loss=loss)
    with made.log_section("late"):
        made.log_system(step=2)
    assert (["run_start", "step", "run_end"], 0) == (kinds(tmp_path), loss.conversions)


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (None, "completed", None),
        (ValueError("bad batch"), "errored", "ValueError: bad batch"),
        (KeyboardInterrupt(), "interrupted", "KeyboardInterrupt"),
    ],
)
def test_leaving_the_block_ends_the_run(
    error: BaseException | None, reason: str, text: str | None, tmp_path: Path
) -> None:
    """The run ends as the block does: completed, errored or interrupted; the exception goes on."""
    raised = None
    try:
        with logger(tmp_path) as made:
            made.log_step(step=1, **METRICS)
            if error is not None:
                raise error  # noqa: TRY301 - it is to leave the block
    except BaseException as caught:  # noqa: BLE001 - KeyboardInterrupt too
        raised = caught
    end = events(tmp_path)[-1]
    assert (error, reason, text, 1, 1.5) == (
        raised,
        end["reason"],
        end.get("error"),
        end["final_step"],
        end["final_loss"],
    )


PROGRAM = """
from toyspec.tracker import TrainingLogger
logger = TrainingLogger(run_name="run", print_every=0)
logger.log_step(step=1, loss=1.5)
{ending}
"""


@pytest.mark.parametrize(
    ("ending", "reason", "error"),
    [
        ("", "completed", None),
        ("raise ValueError('bad batch')", "errored", "ValueError: bad batch"),
    ],
)
def test_a_program_that_never_finishes_leaves_a_complete_bundle(
    ending: str, reason: str, error: str | None, tmp_path: Path
) -> None:
    """At the exit of the program the run ends by itself, with the exception that ended the program."""
    program = PROGRAM.format(ending=ending)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False, capture_output=True)
    end = events(tmp_path)[-1]
    assert ("run_end", reason, error, []) == (end["kind"], end["reason"], end.get("error"), findings(tmp_path))


def test_importing_the_tracker_imports_no_library_of_arrays(tmp_path: Path) -> None:
    """A program that imports the tracker has not imported NumPy, JAX, PyTorch or wandb by that."""
    code = "import sys, toyspec.tracker; print(sorted({'numpy', 'jax', 'torch', 'wandb'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "[]\n" == done.stdout
