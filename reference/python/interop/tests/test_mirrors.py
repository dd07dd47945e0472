"""Mirrors into the real W&B (offline), Trackio and TensorBoard: killed at random moments, every row is there once."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mirror_services import write_steps
from toyspec.convert import wandb_files

LOSSES = [None if at == 77 else at / 8 for at in range(240)]
EXPECTED = list(enumerate(LOSSES, 1))
PACKAGE = str(Path(__file__).parents[2])


def backfill(run: Path, *words: str, kill_after: float | None = None, **environment: str) -> int:
    """Send what is missing of *run*; return the exit status, that of the kill where it came before the end."""
    command = [sys.executable, "-m", "toyspec", "mirror", "--backfill", str(run), *words]
    paths = os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths, **environment}) as process:
        if kill_after is not None:
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        return process.wait(120)


def sent_with_kills(run: Path, *words: str, seconds: float, **environment: str) -> None:
    """Send *run* while it grows; of three attempts the first two are killed within *seconds*."""
    chance = random.Random(str(words))
    for at in range(1, 4):
        write_steps(run, LOSSES[: at * 80], seconds=0.5, ending="completed" if at == 3 else None)
        backfill(run, *words, kill_after=chance.uniform(0.2, 1.0) * seconds if at < 3 else None, **environment)
    assert 0 == backfill(run, *words, **environment)


def test_wandb_offline(tmp_path: Path) -> None:
    """The rows of all files, of which a server keeps the first of each number, are those of the run."""
    pytest.importorskip("wandb")
    sent_with_kills(tmp_path / "a", "--to", "wandb", "--into", str(tmp_path / "w"), seconds=6, WANDB_MODE="offline")
    rows: dict[int, dict[str, Any]] = {}
    for path in sorted(tmp_path.glob("w/wandb/offline-run-*/*.wandb")):
        for number, row in history(path):
            # A row that is there twice is the same one, so the server loses nothing when it drops the second.
            assert row == rows.setdefault(number, row)
    assert list(range(240)) == sorted(rows)
    assert EXPECTED == [(row["train/step"], numbers(row["loss"])) for _, row in sorted(rows.items())]


def history(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return number and values of each row in a file of W&B."""
    found = []
    with path.open("rb") as file:
        for record in wandb_files.read_records(file):
            kind, body = wandb_files.kind_and_body(record) if isinstance(record, bytes) else (0, b"")
            if kind == wandb_files.HISTORY:
                row = dict(wandb_files.pairs(body))
                found.append((row.pop("_step"), {name: row[name] for name in ("train/step", "loss")}))
    return [(number, {**row, "loss": numbers(row["loss"])}) for number, row in found]


def numbers(value: float | None) -> float | None:
    """Return *value*, None for what is not finite."""
    return None if value is None or not math.isfinite(value) else value


def test_tensorboard(tmp_path: Path) -> None:
    """TensorBoard's own reader finds every value once."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sent_with_kills(tmp_path / "a", "--to", "tensorboard", "--into", str(tmp_path / "tb"), seconds=1.5)
    found = EventAccumulator(str(tmp_path / "tb" / "a"), size_guidance={"scalars": 0}).Reload()
    assert EXPECTED == [(event.step, numbers(event.value)) for event in found.Scalars("loss")]


def test_mlflow(tmp_path: Path) -> None:
    """A database of MLflow has every metric once, the settings and the end."""
    tracking = pytest.importorskip("mlflow.tracking")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    # MLflow makes its tables in many steps; a kill in the middle leaves a database that it cannot open again.
    client = tracking.MlflowClient(uri)
    client.search_experiments()
    sent_with_kills(tmp_path / "a", "--to", "mlflow", "--into", uri, "--project", "g", seconds=8)
    (made,) = client.search_runs([client.get_experiment_by_name("g").experiment_id])
    history = client.get_metric_history(made.info.run_id, "loss")
    assert sorted(EXPECTED) == sorted((metric.step, numbers(metric.value)) for metric in history)
    assert ({"lr": "0.1"}, "FINISHED", "a") == (made.data.params, made.info.status, made.info.run_name)
