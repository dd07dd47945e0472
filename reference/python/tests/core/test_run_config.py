"""Settings that are known after the start of a run: written, without their secrets, and merged by readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toyspec
from toyspec.core.writing import run_starting


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


def test_what_is_set_on_a_run_is_in_its_log_or_refused(tmp_path: Path) -> None:
    """Settings by key, by attribute and at once, and what people say of a run; nothing that is set vanishes."""
    with toyspec.start_run(tmp_path, run_id="a", config={"lr": 0.1}, name="first", tags=["x"]) as run:
        run.config["seed"] = 7
        run.config.lr = 0.2
        run.config = {"hub_token": "hunter2"}
        assert (run.config["lr"], dict(run.config)["seed"]) == (0.2, 7)
        assert ("first", ["x"], None) == (run.name, run.tags, run.notes)
        run.name, run.tags = "second", ["y"]
        assert ("second", ["y"]) == (run.name, run.tags)
        for name in ("summary", "losses", "step"):
            with pytest.raises(AttributeError, match=name):
                setattr(run, name, 1)
    assert "hunter2" not in (tmp_path / "a/events.jsonl").read_text(encoding="utf-8")
    found = toyspec.open_run(tmp_path / "a")
    assert ({"lr": 0.2, "seed": 7, "hub_token": "***"}, "second", ["y"]) == (
        found.config,
        found.facts.name,
        list(found.facts.tags),
    )


def test_code_that_has_no_run_logs_into_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a process that writes none, where nothing is written; before any start it says what to do."""
    monkeypatch.setattr(run_starting, "_current", [])
    with pytest.raises(RuntimeError, match="start_run"):
        toyspec.log({"a": 1})
    with toyspec.start_run(tmp_path, run_id="a"):
        toyspec.log({"a": 1}, 5, b=2)
    assert toyspec.open_run(tmp_path / "a").metrics["b"].last == 2
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with toyspec.start_run(tmp_path, run_id="b"):
        toyspec.log({"a": 1})
    assert not (tmp_path / "b").exists()


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
