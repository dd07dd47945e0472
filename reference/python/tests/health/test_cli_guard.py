"""``toyspec guard``: the exit status, and where the alerts of the runs that it watches go."""

from __future__ import annotations

import io
import json
import sys
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
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
    """An alert in the log of any rank is one of the run; a warning fails where that is asked for."""
    for rank in (0, 1):
        process = TrainingProcess(rank, 2, "t")
        with toyspec.start_run("runs", run_id="r", git=None, ranks="all", process=process) as run:
            run.step(1, loss=1.0)
            if rank:
                run.alert("the room is hot", rule="room", level="warning")
    assert 0 == _guard()
    assert 1 == _guard("--fail-on", "warning")


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


@pytest.fixture
def sick_run(tmp_path: Path) -> Path:
    """Return a run of which the loss is NaN at step 30."""
    with toyspec.start_run(tmp_path, run_id="sick", git=None) as run:
        for step in range(1, 41):
            run.step(step, loss=nan if step == 30 else 2.0)
    return tmp_path / "sick"


def test_rules_of_the_settings_are_used(
    sick_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules are those of toyspec.toml; a wrong one ends the command with its number and key."""
    monkeypatch.chdir(sick_run)
    (sick_run / "toyspec.toml").write_text('[[health]]\nname = "low"\ntype = "bound"\nbelow = 3\n')
    assert 0 == main(["guard", "."])
    assert "warning: low  step 1  loss is 2, below 3" in capsys.readouterr().err
    (sick_run / "toyspec.toml").write_text('[[health]]\nname = "low"\ntype = "bound"\nbelov = 3\n')
    assert 2 == main(["guard", "."])
    assert "[[health]] 1 key belov: a rule of type bound has no key 'belov'" in capsys.readouterr().err


def test_page_of_a_run_has_incidents_as_alerts(sick_run: Path) -> None:
    """The viewer and the report get what rules find as alerts, and those of the log, each once."""
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.view.details import detail_of

    with toyspec.start_run(sick_run.parent, run_id="sick", exist="resume", git=None, health="default") as run:
        run.step(41, loss=nan)
        run.alert("the room is hot", rule="room")
    stream = str(sick_run / "events.jsonl")
    found = detail_of(stream, {"id": "sick", "metrics": {}}, DialectChoice(), None)["alerts"]
    expected = [("loss-not-finite", 30), ("loss-not-finite", 35), ("loss-not-finite", 41), ("room", None)]
    assert expected == [(each["rule"], each["step"]) for each in found]
    assert {"rule", "level", "text", "t", "step", "line"} <= found[0].keys()


@pytest.mark.parametrize("said", [{}, {"event": "recovered"}, {"event": "over"}, {"event": 1}])
def test_an_alert_of_a_log_is_the_end_that_it_says(said: dict[str, Any]) -> None:
    """An ``alert`` event is the end of an incident if its ``event`` is that; its text is for people."""
    members = {"kind": "alert", "t": 1.0, "rule": "room", "level": "info", "text": "recovered: 21 degrees", **said}
    alert = recorded_alert(Record(json.dumps(members).encode(), 3, 90, "toy/v1", "alert"))
    assert alert is not None
    assert (said == {"event": "recovered"}) == (alert.event == "recovered")
    assert {"event": alert.event} == {
        "event": "begun",
        **{k: v for k, v in alert.event_members.items() if k == "event"},
    }


@pytest.mark.parametrize(
    ("event", "level", "style"),
    [("begun", "error", "1;31"), ("begun", "info", "36"), ("recovered", "error", "2"), ("ended", "warning", "2")],
)
def test_only_what_begins_has_the_colour_of_its_level(event: Any, level: Any, style: str) -> None:
    """A line names the level, or that it is over, the rule, and where; what is over is dim."""
    terminal = Terminal(io.StringIO(), color="always")
    text = "recovered: loss is 2" if event == "recovered" else "loss is 9"
    alert = HealthAlert(rule="r\x1b", level=level, text=text, event=event, step=7, rank=3)
    word = "recovered" if event == "recovered" else level
    said = text.removeprefix("recovered: ")
    assert f"\x1b[{style}m{word}: r\\x1b\x1b[0m  step 7  rank 3  {said}" == alert_line(alert, terminal)
    plain = Terminal(io.StringIO(), color="never")
    without_place = msgspec.structs.replace(alert, step=None, rank=None)
    assert f"{word}: r\\x1b  {said}" == alert_line(without_place, plain)
