"""``toyspec guard``: the exit status, and where the alerts of the runs that it watches go."""

from __future__ import annotations

import json
import sys
from math import nan
from pathlib import Path

import pytest

import toyspec
from toyspec.core.command_line.main import main
from toyspec.core.writing.environment import TrainingProcess
from toyspec.health.commands import guard


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder without settings, and look often."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(guard, "_POLL_SECONDS", 0.01)


def _guard(*options: str) -> int:
    return main(["guard", *options, "runs"])


def _sick_run() -> None:
    with toyspec.start_run("runs", run_id="sick", git=None) as run:
        for step in range(1, 30):
            run.step(step, loss=nan if step == 20 else 1.0)


def test_alert_sets_the_exit_status(capfd: pytest.CaptureFixture[str]) -> None:
    """An alert at or above --fail-on is status 1; each incident is a line, and with --json an object."""
    with toyspec.start_run("runs", run_id="well", git=None) as run:
        run.step(1, loss=1.0)
    assert 0 == _guard()
    _sick_run()
    assert 1 == _guard("--json")
    written = capfd.readouterr()
    assert "toyspec guard: sick: error: loss-not-finite  step 20  loss is NaN" in written.err
    messages = [json.loads(line) for line in written.out.splitlines()]
    assert [("begun", "sick"), ("recovered", "sick")] == [(each["event"], each["run"]) for each in messages]


def test_ranks_are_watched_together(capfd: pytest.CaptureFixture[str]) -> None:
    """A rank that is slower than the others is named; a warning fails where that is asked for."""
    runs = [
        toyspec.start_run("runs", run_id="r", git=None, ranks="all", process=TrainingProcess(rank, 2, "t"))
        for rank in (0, 1)
    ]
    for step in range(1, 121):
        for rank, run in enumerate(runs):
            run.step(step, loss=1.0, compute_us=1000 + 300 * rank)
    for run in runs:
        run.run_end()
    assert 0 == _guard()
    assert 1 == _guard("--fail-on", "warning")
    assert "r: warning: rank-behind  step" in capfd.readouterr().err


def test_alerts_go_to_the_actions_of_the_settings() -> None:
    """The command in [[alerts]] gets each alert of its level."""
    command = [sys.executable, "-c", "import sys; open('told', 'a').write(sys.stdin.read() + chr(10))"]
    Path("toyspec.toml").write_text(f"[[alerts]]\ncommand = {json.dumps(command)}\nlevel = 'error'\n")
    _sick_run()
    assert 1 == _guard()
    told = [json.loads(line) for line in Path("told").read_text().splitlines()]
    assert [("loss-not-finite", "begun"), ("loss-not-finite", "recovered")] == [(t["rule"], t["event"]) for t in told]


def test_watch_waits_for_runs_until_it_is_idle(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no run is written, it ends after the idle time and reports that no rule was applied."""
    assert 0 == _guard("--idle-timeout", "0.05")
    errors = capsys.readouterr().err
    assert "waiting for runs" in errors
    assert "no run was found at runs, so no rule was applied" in errors
