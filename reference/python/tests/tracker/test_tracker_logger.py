from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from files import in_subprocess
from logged_runs import events, findings, kinds, steps
from torch_like import Tensor
from toyspec.tracker import LogConfig, TrainingLogger

METRICS = {"loss": 1.5, "lr": 3e-4, "mfu": 0.56}


def logger(directory: Path, **options: Any) -> TrainingLogger:
    """Return a logger that writes its bundle below *directory* and shows nothing."""
    return TrainingLogger(**{"runs_root": directory, "run_name": "run", "print_every": 0, **options})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"print_evry": 5}, TypeError, "TrainingLogger has no option 'print_evry'; did you mean print_every"),
        ({"log_every": -1}, ValueError, "log_every is -1"),
        ({"record_every": 0}, ValueError, "record_every is 0"),
        ({"print_every": True}, ValueError, "print_every is True"),
        ({"max_wandb_mb": -1.0}, ValueError, "max_wandb_mb is -1.0"),
        ({"project": "p", "runs_root": None}, ValueError, "W&B mirrors the bundle, so give runs_root"),
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
    ("step", "value", "error", "fact"),
    [
        (-1, 1.0, ValueError, "step is -1; it must not be negative"),
        (1.0, 1.0, TypeError, "integer"),
        ("1", 1.0, TypeError, "integer"),
        (np.array([1, 2]), 1.0, TypeError, "integer"),
        *((0, value, TypeError, "metric 'loss' must be") for value in ("1.5", [1.5], np.array([1.0, 2.0]), object())),
    ],
)
def test_a_step_and_a_metric_must_be_numbers(
    step: Any, value: Any, error: type[Exception], fact: str, tmp_path: Path
) -> None:
    """A step is an integer from 0, a metric a number or an array of one element; the message names what is not."""
    with pytest.raises(error, match=fact):
        logger(tmp_path).log_step(step=step, loss=value)


@pytest.mark.parametrize(
    ("step", "value", "written"),
    [
        (np.int32(3), np.float32(0.5), 0.5),
        (np.array(3), np.array([0.5]), 0.5),
        (True, np.int64(3), 3.0),
        (1, True, 1.0),
        (1, 10**400, None),
        (1, -(10**400), None),
        (1, float("nan"), None),
        (1, Tensor(0.25), 0.25),
    ],
)
def test_a_step_and_a_metric_may_be_of_any_library(
    step: Any, value: Any, written: float | None, tmp_path: Path
) -> None:
    """Scalars and arrays of one element are numbers; what is not finite is null in the bundle."""
    with logger(tmp_path) as made:
        made.log_step(step=step, loss=value)
    event = events(tmp_path)[1]
    assert (int(step), int, written) == (event["step"], type(event["step"]), event["loss"])


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
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    loss = Tensor(1.5)
    with logger(tmp_path, print_every=1, project="p") as made:
        with made.log_section("training"):
            made.log_step(step=0, loss=loss)
        made.log_validation(step=0, val_loss=loss)
        made.log_system(step=0, memory=loss)
    assert ([], 0, ("", "")) == (list(tmp_path.iterdir()), loss.conversions, capsys.readouterr())


def test_every_process_may_log_into_a_bundle_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With master_only=False the other processes write beside the master."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    for process in (0, 3):
        monkeypatch.setenv("RANK", str(process))
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


def test_leaving_the_block_ends_the_run(tmp_path: Path) -> None:
    """An exception goes on, and the run ends by it."""
    with pytest.raises(ValueError, match="bad batch"), logger(tmp_path) as made:  # noqa: PT012
        made.log_step(step=1, **METRICS)
        raise ValueError("bad batch")
    end = events(tmp_path)[-1]
    assert ("errored", "ValueError: bad batch", 1, 1.5) == tuple(
        end[key] for key in ("reason", "error", "final_step", "final_loss")
    )


def test_importing_the_tracker_imports_no_library_of_arrays(tmp_path: Path) -> None:
    """A program that imports the tracker has not imported NumPy, JAX, PyTorch or wandb by that."""
    code = "import sys, toyspec.tracker; print(sorted({'numpy', 'jax', 'torch', 'wandb'} & sys.modules.keys()))"
    done = in_subprocess(code, cwd=tmp_path)
    assert "[]\n" == done.stdout
