"""Settings that are known after the start of a run: written, without their secrets, and merged by readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toyspec


def _logged(root: Path, steps: int = 2) -> toyspec.RunWriter:
    run = toyspec.start_run(root, run_id="a", config={"lr": 0.1, "optim": {"name": "sgd", "beta": 0.9}})
    run.step(1, loss=2.5)
    run.run_config({"lr": 0.01, "seed": 7, "hub_token": "hunter2", "optim": {"name": "adamw"}})
    for step in range(2, steps + 1):
        run.step(step, loss=2.0)
    return run


SETTINGS = {"lr": 0.01, "seed": 7, "hub_token": "***", "optim": {"name": "adamw"}}


@pytest.mark.proves("toy/run_config/secrets", "toy/run_config/merged")
@pytest.mark.parametrize("steps", [2, 40_000])
def test_later_values_win_and_the_log_keeps_both(tmp_path: Path, steps: int) -> None:
    """A run has its last settings, also where only the ends of its log are read; no secret is in the log."""
    with _logged(tmp_path, steps):
        pass
    text = (tmp_path / "a/events.jsonl").read_text(encoding="utf-8")
    assert "hunter2" not in text
    assert all(part in text for part in ('"lr":0.1,', '"lr":0.01,'))
    assert toyspec.open_run(tmp_path / "a").config == SETTINGS
    (listed,) = toyspec.list_runs(tmp_path)
    assert listed.config == SETTINGS
    assert listed.row()["config.optim.name"] == "adamw"


def test_settings_belong_to_no_step(tmp_path: Path) -> None:
    """A resumption supersedes steps, not the settings that were written between them."""
    with _logged(tmp_path) as run:
        run.run_config({"lr": 0.001}, step=2)
        run.run_resume(1)
        run.step(2, loss=1.0)
    assert toyspec.open_run(tmp_path / "a").config == {**SETTINGS, "lr": 0.001}


def test_a_resumed_run_writes_what_differs_from_the_last_settings(tmp_path: Path) -> None:
    """What a run_config said counts as said: a start with the same settings writes none of them again.

    A program that resumes the run gives in its start what it gave there; only that may be gone.
    """
    with _logged(tmp_path):
        pass
    for config in ({**SETTINGS, "hub_token": "hunter3", "lr": 0.5}, {"lr": 0.5}):
        with toyspec.start_run(tmp_path, run_id="a", exist="resume", config=config) as run:
            run.step(loss=1.0)
    lines = (tmp_path / "a/events.jsonl").read_text(encoding="utf-8").splitlines()
    resumed = [record["config"] for record in map(json.loads, lines) if record["kind"] == "run_resume"]
    assert resumed == [{"lr": 0.5}, {"optim": None}]
