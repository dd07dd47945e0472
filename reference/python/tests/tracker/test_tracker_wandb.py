"""The tracker's project in Weights & Biases: a mirror of the bundle, in a process of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fake_wandb import FakeWandb
from logged_runs import findings, steps
from toyspec.convert.mirrors.settings import Mirror
from toyspec.tracker import TrainingLogger


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    """Let programs have a ``wandb`` that keeps what it is handed."""
    return FakeWandb(tmp_path, monkeypatch)


def logger(directory: Path, **options: Any) -> TrainingLogger:
    """Return a logger with a project and a bundle below *directory*."""
    fixed = {"project": "p", "runs_root": directory / "runs", "run_name": "r", "print_every": 0, "log_every": 1}
    return TrainingLogger(**{**fixed, **options})


def test_names_are_grouped(wandb: FakeWandb, tmp_path: Path) -> None:
    """Metrics are grouped as train, val and system, all over train/step, with the settings of the run."""
    with logger(tmp_path, tags=["tpu"], notes="n", hyperparameters={"lr": 1}) as made:
        made.log_step(step=5, loss=1.5, lr=3e-4)
        made.log_validation(step=5, val_loss=1.2)
        made.log_system(step=5, memory_mb=10)
    assert [
        {"train/loss": 1.5, "train/lr": 3e-4, "train/step": 5},
        {"val/loss": 1.2, "train/step": 5},
        {"system/memory_mb": 10, "train/step": 5},
    ] == wandb.rows()
    (settings,) = wandb.calls("init")
    expected = {"project": "p", "name": "r", "tags": ["tpu"], "notes": "n", "resume": "allow"}
    assert expected.items() <= settings.items()
    assert {"project": "p", "lr": 1} == settings["config"]
    assert [["train/step", {}], ["*", {"step_metric": "train/step"}]] == wandb.calls("define_metric")
    assert [0] == wandb.calls("finish")
    assert [] == findings(tmp_path)


def test_every_nth_step_is_sent_until_the_budget_is_used_up(
    wandb: FakeWandb, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """log_every counts steps, and evaluations are always sent; one warning reports the end of max_wandb_mb."""
    with logger(tmp_path, log_every=50, max_wandb_mb=0.0001) as made:
        for step in range(200):
            made.log_step(step=step, loss=1.0 / 3.0)
            if step == 60:
                made.log_validation(step=60, val_loss=1.0)
    assert [0, 50, 60] == [row["train/step"] for row in wandb.rows()]
    assert 1 == capfd.readouterr().err.count("the budget of run r is used up")
    assert list(range(200)) == steps(tmp_path)


def test_a_failure_is_reported_once_and_stops_nothing(
    wandb: FakeWandb, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B has every row with values: nothing is sent again, and the mirror gives up when its patience ends."""
    monkeypatch.setattr("toyspec.convert.mirrors.settings.WAIT_SECONDS", 120.0)
    monkeypatch.setattr("toyspec.tracker.training_logger.Mirror", partial(Mirror, patience=3.0))
    wandb.fail("finish")
    with logger(tmp_path) as made:
        made.log_step(step=1, loss=1.0)
    said = capfd.readouterr().err
    assert (1, 1) == (said.count("wandb failed (ConnectionError: no route to host)"), said.count("does not answer"))
    assert 1 == len(wandb.calls("log"))
