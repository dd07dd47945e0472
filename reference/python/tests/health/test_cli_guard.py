"""``toyspec guard``: the exit status, and where the alerts of the runs that it watches go."""

from __future__ import annotations

import io
import json
import sys
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from toyspec.core.command_line.main import main
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.reading.records import Record
from toyspec.core.writing.environment import TrainingProcess
from toyspec.health.checking import recorded_alert
from toyspec.health.commands import guard
from toyspec.health.options import alert_line
from toyspec.health.rules import HealthAlert

if TYPE_CHECKING:
    from pathlib import Path


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


def test_ranks_are_watched_together() -> None:
    """An alert in the log of any rank is one of the run."""
    for rank in (0, 1):
        process = TrainingProcess(rank, 2, "t")
        with toyspec.start_run("runs", run_id="r", git=None, ranks="all", process=process) as run:
            run.step(1, loss=1.0)
            if rank:
                run.alert("the room is hot", rule="room", level="error")
    assert 1 == _guard()


def test_rules_and_actions_are_those_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """The command in [[alerts]] gets each alert of its level; a wrong rule is reported with its number and key."""
    _sick_run()
    command = [sys.executable, "-c", "import sys; open('told', 'a').write(sys.stdin.read() + chr(10))"]
    rule = '[[health]]\nname = "low"\ntype = "bound"\nbelow = 3\n'
    Path("toyspec.toml").write_text(f"{rule}[[alerts]]\ncommand = {json.dumps(command)}\n")
    assert 0 == _guard()
    assert 1 == _guard("--fail-on", "warning", "--health-preset", "default")
    told = [json.loads(line) for line in Path("told").read_text().splitlines()]
    assert [("low", "begun"), *[("loss-not-finite", event) for event in ("begun", "recovered")]] == [
        (each["rule"], each["event"]) for each in told
    ]
    assert "warning: low  step 1  loss is 1, below 3" in capsys.readouterr().err
    Path("toyspec.toml").write_text(rule.replace("below", "belov"))
    assert 2 == _guard()
    assert "[[health]] 1 key belov: a rule of type bound has no key 'belov'" in capsys.readouterr().err


def test_watch_waits_for_runs_until_it_is_idle(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no run is written, it ends after the idle time and reports that no rule was applied."""
    assert 0 == _guard("--idle-timeout", "0.05")
    errors = capsys.readouterr().err
    assert "waiting for runs" in errors
    assert "no run was found at runs, so no rule was applied" in errors


@pytest.mark.parametrize("said", ["begun", "recovered", "over", 1])
def test_an_alert_of_a_log_is_the_end_that_it_says(said: Any) -> None:
    """An ``alert`` event is the end of an incident if its ``event`` is that; its text is for people."""
    members = {"kind": "alert", "t": 1.0, "rule": "room", "level": "info", "text": "recovered: 21 degrees"}
    alert = recorded_alert(Record(json.dumps({**members, "event": said}).encode(), 3, 90, "toy/v1", "alert"))
    assert alert is not None
    assert ("recovered" if said == "recovered" else "begun") == alert.event
    assert (said if said == "recovered" else None) == alert.event_members.get("event")


@pytest.mark.parametrize(
    ("event", "level", "style"), [("begun", "error", "1;31"), ("begun", "info", "36"), ("recovered", "error", "2")]
)
def test_only_what_begins_has_the_colour_of_its_level(event: Any, level: Any, style: str) -> None:
    """A line names the level, or that it is over, the rule, and where; what is over is dim."""
    terminal = Terminal(io.StringIO(), color="always")
    alert = HealthAlert(rule="r\x1b", level=level, text="recovered: loss is 2", event=event, step=7, rank=3)
    word = (
        "recovered: r\\x1b\x1b[0m  step 7  rank 3  "
        if event == "recovered"
        else f"{level}: r\\x1b\x1b[0m  step 7  rank 3  recovered: "
    )
    assert f"\x1b[{style}m{word}loss is 2" == alert_line(alert, terminal)
