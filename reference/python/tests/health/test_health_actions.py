"""What happens on an alert: commands get it, also those that fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from toyspec.core.files import read_resource
from toyspec.core.reading.configuration import ConfigurationError, find_configuration
from toyspec.health.actions import AlertAction, AlertDispatcher, action_of, actions_by
from toyspec.health.rules import HealthAlert, HealthRuleError

SECRET = "hf_" + "a" * 24
ALERT = HealthAlert(rule="loss-spike", level="warning", text=f"loss of {SECRET} is 9", metric="loss", value=9.0, step=7)
RECOVERED = msgspec.structs.replace(ALERT, event="recovered", level="info", text="recovered: loss is 2 again")


def _dispatcher(*tables: dict[str, Any]) -> AlertDispatcher:
    return AlertDispatcher([action_of(table) for table in tables], run="r-1", path="runs/r-1")


def _keeping(path: Path) -> list[str]:
    """Return a command that keeps what it gets in the file *path*, a line for each alert."""
    return [sys.executable, "-c", f"import sys; open({str(path)!r}, 'a').write(sys.stdin.read() + chr(10))"]


def _got(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_message_follows_its_schema_without_secrets(tmp_path: Path) -> None:
    """A command gets JSON as its schema describes it, in which secrets are replaced."""
    dispatcher = _dispatcher({"command": _keeping(tmp_path / "got")})
    dispatcher.send(ALERT)
    dispatcher.finish()
    [message] = _got(tmp_path / "got")
    schema = json.loads(read_resource("schemas", "report", "v1", "alert.json"))
    jsonschema.Draft202012Validator(schema).validate(message)
    assert ("loss of *** is 9", 7, "r-1") == tuple(message[key] for key in ("text", "step", "run"))


def test_command_that_fails_blocks_nothing_and_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each failing command is reported once, without secrets in its name; the others get each alert."""
    dispatcher = _dispatcher(
        {"command": [sys.executable, "-c", "raise SystemExit(3)"]},
        {"command": str(tmp_path / SECRET)},
        {"command": [sys.executable, "-c", "import time; time.sleep(60)"], "timeout": 0.1},
        {"command": "a\0b"},
        {"command": _keeping(tmp_path / "got")},
    )
    dispatcher.send(ALERT)
    dispatcher.send(RECOVERED)
    dispatcher.finish(seconds=60)
    assert ["begun", "recovered"] == [each["event"] for each in _got(tmp_path / "got")]
    output = capsys.readouterr().err
    for fact in ("it ended with status 3", "No such file", "it did not end within 0.1 s", "embedded null byte"):
        assert 1 == output.count(f"failed: {fact}"), fact
    assert SECRET not in output


def test_queue_is_bounded_and_what_is_lost_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While an action does not end, no more than 100 alerts wait; the others are counted."""
    dispatcher = _dispatcher({"command": [sys.executable, "-c", "import time; time.sleep(60)"], "timeout": 0.5})
    for _ in range(150):
        dispatcher.send(ALERT)
    dispatcher.finish(seconds=0.1)
    assert dispatcher.lost >= 48
    output = capsys.readouterr().err
    assert f"{dispatcher.lost} were not handed over" in output
    assert "given up" in output


def test_action_gets_its_levels_and_rules(tmp_path: Path) -> None:
    """An action gets alerts of its level and rules, and the end of an incident only after its begin."""
    dispatcher = _dispatcher({"command": _keeping(tmp_path / "got"), "level": "error", "rules": "loss-*"})
    error = msgspec.structs.replace(ALERT, level="error", rule="loss-diverged")
    for alert in (ALERT, RECOVERED, error, msgspec.structs.replace(error, rule="stall")):
        dispatcher.send(alert)
    dispatcher.send(msgspec.structs.replace(error, event="recovered", level="info"))
    dispatcher.finish()
    assert [("loss-diverged", "begun"), ("loss-diverged", "recovered")] == [
        (each["rule"], each["event"]) for each in _got(tmp_path / "got")
    ]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, "needs a command"),
        ({"comand": "a"}, "did you mean 'command'"),
        ({"command": []}, "command"),
        ({"command": "page-me --now"}, "give its arguments apart"),
        ({"command": "a", "timeout": 0}, "timeout"),
        ({"command": "a", "level": "bad"}, "level"),
    ],
)
def test_wrong_action_is_refused(table: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """A wrong table is an error that says what was expected; in a file with its line."""
    with pytest.raises(HealthRuleError, match=expected) as refused:
        action_of(table)
    assert refused.value.key in {"", *table}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    (tmp_path / "toyspec.toml").write_text("\n".join(["[[alerts]]", *lines]))
    with pytest.raises(ConfigurationError, match=rf"toyspec\.toml: line \d, \[\[alerts\]\].*{expected}"):
        actions_by(find_configuration(str(tmp_path)))


def test_meta_schema_describes_the_actions_that_are_read() -> None:
    """The meta-schema and the package have the same members."""
    document = json.loads(read_resource("schemas", "meta", "alerts.json"))
    jsonschema.Draft202012Validator.check_schema(document)
    fields = {field.name: field for field in msgspec.structs.fields(AlertAction)}
    assert set(fields) == set(document["properties"])
    for name, described in document["properties"].items():
        if "default" in described:
            assert described["default"] == fields[name].default
