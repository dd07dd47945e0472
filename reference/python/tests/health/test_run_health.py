"""A run that is compared with health rules while it is written."""

from __future__ import annotations

import json
import sys
import time
from math import nan
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import toyspec
from logged_runs import events, kinds
from toyspec.core.files import read_resource
from toyspec.core.writing.run_writer import RunWriter
from toyspec.health.checking import check_health
from toyspec.health.run_health import Health, RunHealth

RULES: list[dict[str, Any]] = [{"name": "nan", "type": "nonfinite", "metric": "*", "on": "stop", "level": "error"}]


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder without settings."""
    monkeypatch.chdir(tmp_path)


def _start(run_id: str = "a", **options: Any) -> RunWriter:
    return toyspec.start_run("runs", run_id=run_id, git=None, **{"health": RULES, **options})


def watch_of(run: RunWriter) -> RunHealth:
    """Return what compares *run* with its rules."""
    (found,) = [each for each in run._companions._going if isinstance(each, RunHealth)]
    return found


def test_incident_is_one_alert_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An incident is an alert after its record, a line on standard error, and a second one when it ends."""
    with _start() as run:
        for step in range(1, 13):
            run.step(step, loss=nan if step in (3, 4) else 2.0)
    assert ["step", "alert", "step"] == kinds(Path("runs/a"))[3:6]
    found = [event for event in events(Path("runs/a")) if event["kind"] == "alert"]
    assert [("nan", "error", 3), ("nan", "info", 9)] == [(each["rule"], each["level"], each["step"]) for each in found]
    output = capsys.readouterr().err
    assert "toyspec: a: error: nan at step 3: loss is NaN\n" in output
    assert "toyspec: a: recovered: nan at step 9: loss is 2 again" in output
    assert toyspec.check("runs").files[0].findings == []


def test_every_way_to_log_is_watched() -> None:
    """However a value is logged, the alert names it as the readers do."""
    with _start() as run:
        run.step(1, grad_norm=nan, extra={"x": nan})
        run.log({"x/y": nan, "text": "t", "ok": True})
        run.scalars({"z": nan}, step=2)
        run.eval("val", loss=nan)
    expected = ["grad_norm", "x", "x/y", "z", "val/loss"]
    assert expected == [event["metric"] for event in events(Path("runs/a")) if event["kind"] == "alert"]
    assert expected == [each.metric for each in check_health("runs/a", RULES)]


def test_messages_follow_their_schema(tmp_path: Path) -> None:
    """What a command gets from the process is what alert.json describes, also of a value that is not finite.

    Secrets are replaced in it.
    """
    program = f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read() + '\\n')"
    with _start(health=False, companions=[Health(RULES, alerts=[{"command": [sys.executable, "-c", program]}])]) as run:
        for step in range(1, 13):
            value = nan if step == 3 else 2.0
            run.log({"loss": value, "ghp_" + "a1" * 18: value}, step=step)
    got = (tmp_path / "got").read_text()
    assert "a1a1" not in got
    messages = [json.loads(line) for line in got.splitlines()]
    assert {"begun", "recovered"} == {each["event"] for each in messages}
    schema = json.loads(read_resource("schemas", "report", "v1", "alert.json"))
    assert [] == [error.message for each in messages for error in Draft202012Validator(schema).iter_errors(each)]


def test_loop_that_asks_stops_and_the_run_names_the_rule() -> None:
    """A loop that asks and stops ends its run as aborted, with the rule; one that does not ask is not disturbed."""
    for run_id, asks in (("asks", True), ("does-not", False)):
        with _start(run_id) as run:
            asked = [run.should_stop]
            for step in range(1, 6):
                run.step(step, loss=nan if step == 3 else 1.0)
                asked += [run.should_stop] if asks else []
                if asked[-1]:
                    break
    assert ("aborted", "stopped by nan: loss is NaN", 3) == tuple(
        events(Path("runs/asks"))[-1][key] for key in ("reason", "error", "final_step")
    )
    assert ("completed", 5) == tuple(events(Path("runs/does-not"))[-1][key] for key in ("reason", "final_step"))


def test_resumption_takes_the_wish_to_stop_back() -> None:
    """A loop that goes on from its checkpoint is not told to stop by what was before."""
    with _start() as run:
        run.step(1, loss=nan)
        asked = [run.should_stop]
        run.run_resume(0)
        asked.append(run.should_stop)
        run.step(1, loss=1.0)
    assert [True, False] == asked
    assert "completed" == events(Path("runs/a"))[-1]["reason"]


def test_stall_is_reported_while_it_lasts() -> None:
    """The thread that watches the time reports a stall, and the next step ends it."""
    with _start(health=[{"name": "slow", "type": "stall", "seconds": 50}]) as run:
        for step in range(1, 31):
            run.step(step, loss=1.0)
        health = watch_of(run)
        for seconds in (49, 51, 60):
            health._last = time.monotonic() - seconds
            health.poll()
        run.step(31, loss=1.0)
    found = [event for event in events(Path("runs/a")) if event["kind"] == "alert"]
    assert ["error", "info"] == [each["level"] for each in found]
    assert 30 == found[0]["step"]


def test_defect_of_a_rule_ends_the_watch_and_not_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever fails in the watch, every step is written, and one line reports it."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    with _start() as run:
        monkeypatch.setattr("toyspec.health.evaluator.HealthEvaluator.observe", fail)
        for step in range(1, 4):
            run.step(step, loss=nan)
    assert ["run_start", "step", "step", "step", "run_end"] == kinds(Path("runs/a"))
    assert 1 == capsys.readouterr().err.count("health rules fail (a defect)")


def test_settings_of_the_project_are_used() -> None:
    """health=True takes the rules of toyspec.toml, and refuses a wrong one before anything is made."""
    Path("toyspec.toml").write_text('[[health]]\nname = "low"\ntype = "bound"\nbelow = 3\n')
    with _start(health=True) as run:
        run.step(1, loss=1.0)
    assert ["low"] == [event["rule"] for event in events(Path("runs/a")) if event["kind"] == "alert"]
    Path("toyspec.toml").write_text('[[alerts]]\ncomand = "x"\n')
    with pytest.raises(toyspec.ToyspecError, match=r"\[\[alerts\]\] \d+ key comand"):
        _start("b")
    assert not Path("runs/b").exists()


def test_run_that_goes_on_after_its_end_is_watched_again() -> None:
    """A record after run_end opens the run, and its watch."""
    run = _start()
    run.step(1, loss=1.0)
    run.run_end()
    run.step(2, loss=nan)
    run.run_end()
    assert ["alert"] == [kind for kind in kinds(Path("runs/a")) if kind == "alert"]
    assert not watch_of(run)._thread.is_alive()
