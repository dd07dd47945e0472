from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from logged_runs import kinds, steps
from toyspec.tracker import TrainingLogger

SECONDS = 20
"""How long the real library may take to write what it was handed."""


class Run:
    """A run of Weights & Biases that keeps what it is handed, or fails on request."""

    def __init__(self, failing: Callable[[str], bool] = lambda call: False) -> None:
        self.logged: list[dict[str, Any]] = []
        self.metrics: list[tuple[str, str | None]] = []
        self.settings: dict[str, Any] = {}
        self.exit_codes: list[int] = []
        self._failing = failing

    def log(self, payload: dict[str, Any]) -> None:
        """Keep *payload*."""
        self._call("log")
        self.logged.append(payload)

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        """Keep the definition."""
        self._call("define_metric")
        self.metrics.append((name, step_metric))

    def finish(self, exit_code: int) -> None:
        """Keep the exit code."""
        self._call("finish")
        self.exit_codes.append(exit_code)

    def _call(self, name: str) -> None:
        if self._failing(name):
            raise ConnectionError("no route to host")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Let ``wandb.init`` give a run that keeps what it is handed."""
    return stand_in(monkeypatch, Run())


def stand_in(monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    """Let ``wandb`` be a module whose runs are all *run*."""

    def init(**settings: Any) -> Run:
        run._call("init")
        run.settings = settings
        return run

    wandb = ModuleType("wandb")
    wandb.init = init  # type: ignore[attr-defined]
    wandb.Histogram = lambda np_histogram: SimpleNamespace(np_histogram=np_histogram)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    return run


def logger(**options: Any) -> TrainingLogger:
    """Return a logger that has Weights & Biases alone."""
    return TrainingLogger(**{"project": "p", "runs_root": None, "print_every": 0, "log_every": 1, **options})


def test_names_are_those_of_the_source(run: Run) -> None:
    """Metrics are grouped as train, val and system, all over train/step."""
    with logger(run_name="r", tags=["tpu"], notes="n", hyperparameters={"lr": 1}) as made:
        made.log_step(step=5, loss=1.5, lr=3e-4)
        made.log_validation(step=5, val_loss=1.2)
        made.log_system(step=5, memory_mb=10)
        assert run is made.wandb_run
    assert [
        {"train/loss": 1.5, "train/lr": 3e-4, "train/step": 5},
        {"val/val_loss": 1.2, "train/step": 5},
        {"system/memory_mb": 10, "train/step": 5},
    ] == run.logged
    step = "train/step"
    assert [(step, None), *((f"{group}/*", step) for group in ("train", "val", "system", "gradients"))] == run.metrics
    expected = {"project": "p", "name": "r", "tags": ["tpu"], "notes": "n", "config": {"lr": 1}, "resume": "allow"}
    assert (expected, [0]) == (run.settings, run.exit_codes)


def test_every_nth_step_is_sent(run: Run) -> None:
    """log_every counts steps; evaluations are always sent."""
    with logger(log_every=50) as made:
        for step in range(120):
            made.log_step(step=step, loss=1.0)
        made.log_validation(step=7, val_loss=1.0)
    assert [0, 50, 100, 7] == [payload["train/step"] for payload in run.logged]


def test_histograms_are_sent_with_their_borders(run: Run) -> None:
    """A gradient is sent as 32 counts and 33 borders."""
    with logger(enable_histograms=True) as made:
        made.log_step(step=1, loss=1.0)
        made.log_gradients({"w": np.array([1.0, 2.0]), "broken": np.array([np.nan])})
    histogram = run.logged[1]["gradients/w"].np_histogram
    assert (2, 32, 33) == (len(run.logged), len(histogram[0]), len(histogram[1]))


def test_the_budget_is_a_hard_limit(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is handed over never exceeds max_wandb_mb; then one warning and silence, and the bundle has everything."""
    with logger(max_wandb_mb=0.001, runs_root=tmp_path, run_name="run") as made:
        for step in range(1000):
            made.log_step(step=step, loss=1.0 / 3.0)
    sent = len(json.dumps([{}, [], None])) + sum(len(json.dumps(payload)) for payload in run.logged)
    assert 900 < sent <= 1000
    assert 1 == capsys.readouterr().err.count("max_wandb_mb is used up")
    assert list(range(1000)) == steps(tmp_path)


def test_silence_lasts(run: Run) -> None:
    """Once the budget is used up, nothing smaller slips through either."""
    with logger(max_wandb_mb=0.0003) as made:
        made.log_step(step=1, loss=1.0)
        made.log_step(step=2, **{f"metric_{index}": 1.0 for index in range(100)})
        made.log_step(step=3, loss=1.0)
    assert [1] == [payload["train/step"] for payload in run.logged]


def test_settings_count_too(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings that exceed the budget by themselves are not handed over."""
    with logger(max_wandb_mb=0.0001, hyperparameters={"text": "x" * 200}) as made:
        made.log_step(step=1, loss=1.0)
    assert ({}, [], 1) == (run.settings, run.logged, capsys.readouterr().err.count("exceed max_wandb_mb"))


@pytest.mark.parametrize("call", ["init", "define_metric", "log", "finish"])
def test_a_failure_is_reported_once_and_stops_nothing(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever call fails, the training and the bundle go on, and standard error tells it once."""
    stand_in(monkeypatch, Run(lambda name: name == call))
    with logger(runs_root=tmp_path, run_name="run") as made:
        for step in range(3):
            made.log_step(step=step, loss=1.0)
    expected = "toyspec: Weights & Biases failed (ConnectionError: no route to host); the other logs go on\n"
    assert expected == capsys.readouterr().err
    assert ["run_start", "step", "step", "step", "run_end"] == kinds(tmp_path)


def test_a_failure_that_passes_loses_no_later_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure the next step is sent again."""
    failures = iter([True, False, False])
    run = stand_in(monkeypatch, Run(lambda name: name == "log" and next(failures)))
    with logger() as made:
        for step in range(3):
            made.log_step(step=step, loss=1.0)
    assert [1, 2] == [payload["train/step"] for payload in run.logged]


def test_a_missing_library_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where wandb is not installed, a project is logged without it."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    with logger(runs_root=tmp_path, run_name="run") as made:
        made.log_step(step=1, loss=1.0)
    assert 1 == capsys.readouterr().err.count("Weights & Biases failed (ModuleNotFoundError")
    assert [1] == steps(tmp_path)


def test_without_a_project_nothing_is_sent(run: Run) -> None:
    """Without a project there is no run, and the library is not even imported."""
    with logger(project=None) as made:
        made.log_step(step=1, loss=1.0)
    assert (None, [], {}) == (made.wandb_run, run.logged, run.settings)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the real library write to a folder, without a network."""
    pytest.importorskip("wandb")
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_CONFIG_DIR": str(tmp_path / "config"),
        "WANDB_CACHE_DIR": str(tmp_path / "cache"),
        "WANDB_DATA_DIR": str(tmp_path / "data"),
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def kept_records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a file of the real library: blocks of 32 KiB, each record in one or more pieces."""
    offset, record = 7, b""
    while offset + 7 <= len(data):
        length, piece = int.from_bytes(data[offset + 4 : offset + 6], "little"), data[offset + 6]
        if piece == 0 or offset + 7 + length > len(data):
            return
        record += data[offset + 7 : offset + 7 + length]
        offset += 7 + length
        if piece in (1, 4):
            yield record
            record = b""
        if 32768 - offset % 32768 < 7:
            offset += 32768 - offset % 32768


def kept_history(directory: Path) -> list[dict[str, Any]]:
    """Return the history that the real library has kept of a run that was never sent, without keys of its own."""
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = directory.rglob("*.wandb")
    history = []
    for data in kept_records(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            history.append({key: value for key, value in items.items() if not key.startswith("_")})
    return history


def settled_history(directory: Path, *, rows: int) -> list[dict[str, Any]]:
    """Return the history once it has so many *rows*: the library's own process writes it when it has time."""
    deadline = time.monotonic() + SECONDS
    while len(kept_history(directory)) < rows and time.monotonic() < deadline:
        time.sleep(0.02)
    return kept_history(directory)


def test_the_real_library_keeps_what_it_is_handed(offline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real library, offline, has exactly the steps, evaluations and histograms that were due."""
    with logger(run_name="r", log_every=2, enable_histograms=True) as made:
        for step in range(4):
            made.log_step(step=step, loss=1.5, lr=3e-4)
            made.log_gradients({"w": np.array([1.0, 2.0])})
        made.log_validation(step=3, val_loss=1.2)
    assert "" == capsys.readouterr().err
    history = settled_history(offline, rows=5)
    scalars = [{key: value for key, value in row.items() if "gradients" not in key} for row in history]
    first, third = ({"train/loss": 1.5, "train/lr": 3e-4, "train/step": step} for step in (0, 2))
    expected = [first, {"train/step": 0}, third, {"train/step": 2}, {"val/val_loss": 1.2, "train/step": 3}]
    assert expected == scalars
    assert 2 == sum(any("gradients" in key for key in row) for row in history)
