"""``--health`` on the command line."""

from __future__ import annotations

import io
import json
from math import nan
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import pytest

import toyspec
from toyspec.core.command_line.main import main
from toyspec.core.command_line.terminal import Terminal
from toyspec.core.files import read_resource
from toyspec.core.reading.records import Record
from toyspec.health.checking import recorded_alert
from toyspec.health.options import alert_line
from toyspec.health.rules import HealthAlert

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sick_run(tmp_path: Path) -> Path:
    """Return a run of which the loss is NaN at step 30."""
    with toyspec.start_run(tmp_path, run_id="sick", git=None) as run:
        for step in range(1, 41):
            run.step(step, loss=nan if step == 30 else 2.0)
    return tmp_path / "sick"


def test_check_reports_incidents_as_findings(sick_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An incident is a finding at its line, with the severity of its rule, and sets the exit status."""
    assert 0 == main(["check", str(sick_run)])
    capsys.readouterr()
    assert 1 == main(["check", "--health", str(sick_run)])
    output = capsys.readouterr().out
    assert "events.jsonl:31: health-loss-not-finite  loss is NaN; step 30" in output
    assert "toyspec explain health" not in output
    assert "1 run: complete · 1 error, 1 info (see -v)" in output


@pytest.mark.parametrize("form", ["json", "jsonl", "github", "sarif"])
def test_every_format_shows_incidents(sick_run: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All formats of a report have the incident, and the JSON report follows its schema."""
    assert 1 == main(["check", "--health-preset", "strict", "--format", form, str(sick_run)])
    output = capsys.readouterr().out
    assert "health-loss-not-finite" in output
    if form == "json":
        schema = json.loads(read_resource("schemas", "report", "v1", "report.json"))
        jsonschema.Draft202012Validator(schema).validate(json.loads(output))


def test_follow_reports_incidents(sick_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A live check reports them as they come, and in its verdict."""
    assert 1 == main(["check", "--health", "--follow", str(sick_run)])
    assert "health-loss-not-finite  loss is NaN" in capsys.readouterr().out


def test_rules_of_the_settings_are_used(
    sick_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--health takes the rules of toyspec.toml; a wrong one ends the command with its line and key."""
    monkeypatch.chdir(sick_run)
    (sick_run / "toyspec.toml").write_text('[[health]]\nname = "low"\ntype = "bound"\nbelow = 3\n')
    assert 0 == main(["check", "--health", "."])
    assert "health-low  loss is 2, below 3; step 1" in capsys.readouterr().out
    (sick_run / "toyspec.toml").write_text('[[health]]\nname = "low"\ntype = "bound"\nbelov = 3\n')
    assert 2 == main(["check", "--health", "."])
    assert "line 4, [[health]] key belov: a rule of type bound has no key 'belov'" in capsys.readouterr().err


def test_standard_input_has_no_health(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard input cannot be read twice, which is said."""
    assert 2 == main(["check", "--health", "-"])
    assert "name a file" in capsys.readouterr().err


def test_tail_prints_each_incident_after_its_event(sick_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tail --health prints an incident after the event that shows it, and its end; --raw forwards the log alone."""
    assert 0 == main(["tail", "--once", "--all", "--health", str(sick_run)])
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if "error: loss-not-finite  step 30  loss is NaN" in line)
    assert "step 30" in lines[at - 1]
    assert any("recovered: loss-not-finite  step 35" in line for line in lines)
    assert 2 == main(["tail", "--once", "--raw", "--health", str(sick_run)])
    assert "leave out --health" in capsys.readouterr().err


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


@pytest.mark.parametrize("said", [{}, {"event": "begun"}, {"event": "recovered"}, {"event": "over"}, {"event": 1}])
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
    [("begun", "error", "1;31"), ("begun", "warning", "33"), ("begun", "info", "36")]
    + [(event, level, "2") for event in ("recovered", "ended") for level in ("error", "warning", "info")],
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
