"""What happens on an alert: commands, webhooks and services, also those that fail."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import msgspec
import pytest

from toyspec.core.files import read_resource
from toyspec.core.reading.configuration import ConfigurationError, find_configuration
from toyspec.health.actions import AlertAction, AlertDispatcher, action_of, actions_by
from toyspec.health.alerts import HealthAlert
from toyspec.health.rules import HealthRuleError

SECRET = "hf_" + "a" * 24
ALERT = HealthAlert(rule="loss-spike", level="warning", text=f"loss of {SECRET} is 9", metric="loss", value=9.0, step=7)
RECOVERED = msgspec.structs.replace(ALERT, event="recovered", level="info", text="recovered: loss is 2 again")


class Hook(ThreadingHTTPServer):
    """A server on loopback that answers with one status after the other, and keeps what it got."""

    def __init__(self, statuses: list[int | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = statuses
        self.got: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.reached = threading.Event()

    @property
    def address(self) -> str:
        """Address with a password and a path that are secrets."""
        return f"http://127.0.0.1:{self.server_address[1]}/services/T0/{SECRET}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Hook)
        server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        server.headers.append(self.headers)
        status = server.statuses.pop(0) if server.statuses else 204
        server.reached.set()
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    """Return a server that is ended after the test."""
    server = Hook([])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _dispatcher(*tables: dict[str, Any], pauses: list[float] | None = None) -> AlertDispatcher:
    kept = [] if pauses is None else pauses
    return AlertDispatcher([action_of(table) for table in tables], run="r-1", path="runs/r-1", sleep=kept.append)


def test_message_follows_its_schema_without_secrets(hook: Hook) -> None:
    """A webhook gets JSON as its schema describes it, in which secrets are replaced, and its headers."""
    dispatcher = _dispatcher({"webhook": hook.address, "headers": {"X-Key": "k"}})
    dispatcher.send(ALERT)
    dispatcher.finish()
    schema = json.loads(read_resource("schemas", "report", "v1", "alert.json"))
    jsonschema.Draft202012Validator(schema).validate(hook.got[0])
    assert ("loss of *** is 9", 7, "r-1") == tuple(hook.got[0][key] for key in ("text", "step", "run"))
    assert ("k", "application/json") == (hook.headers[0]["X-Key"], hook.headers[0]["Content-Type"])


def test_webhook_is_tried_again(hook: Hook, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that fails, is busy or hangs up is asked again, later each time."""
    hook.statuses = [500, 429, None]
    pauses: list[float] = []
    dispatcher = _dispatcher({"webhook": hook.address}, pauses=pauses)
    dispatcher.send(ALERT)
    dispatcher.finish()
    assert (4, [1.0, 2.0, 4.0], "") == (len(hook.got), pauses, capsys.readouterr().err)


@pytest.mark.parametrize(("statuses", "asked"), [([404, 404], 1), ([500] * 9, 4)])
def test_webhook_that_keeps_failing_is_reported_without_its_secrets(
    hook: Hook, statuses: list[int | None], asked: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What will not succeed is given up, and reported once without the path, which is a password."""
    hook.statuses = [*statuses]
    dispatcher = _dispatcher({"webhook": hook.address})
    dispatcher.send(ALERT)
    dispatcher.finish()
    output = capsys.readouterr().err
    assert asked == len(hook.got)
    assert f"alert loss-spike: webhook at 127.0.0.1 failed: HTTP status {statuses[0]}" in output
    assert "services" not in output
    assert SECRET not in output


def test_server_that_is_not_there_blocks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Sending returns at once where nothing listens, and the failure is reported."""
    dispatcher = _dispatcher({"webhook": "http://127.0.0.1:9/x"})
    for _ in range(300):
        dispatcher.send(ALERT)
    dispatcher.finish(seconds=5)
    assert "webhook at 127.0.0.1 failed" in capsys.readouterr().err


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


def test_command_gets_the_alert_on_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command reads the alert from its standard input; one that fails is reported."""
    program = f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read() + chr(10))"
    dispatcher = _dispatcher(
        {"command": [sys.executable, "-c", program]},
        {"command": [sys.executable, "-c", "raise SystemExit(3)"]},
        {"command": str(tmp_path / "missing")},
    )
    dispatcher.send(ALERT)
    dispatcher.send(RECOVERED)
    dispatcher.finish()
    got = [json.loads(line) for line in (tmp_path / "got").read_text().splitlines()]
    assert ["begun", "recovered"] == [each["event"] for each in got]
    output = capsys.readouterr().err
    assert "it ended with status 3" in output
    assert "No such file" in output


def test_action_gets_its_levels_and_rules(hook: Hook) -> None:
    """An action gets alerts of its level and rules, and the end of an incident only after its begin."""
    dispatcher = _dispatcher({"webhook": hook.address, "level": "error", "rules": "loss-*"})
    error = msgspec.structs.replace(ALERT, level="error", rule="loss-diverged")
    for alert in (ALERT, RECOVERED, error, msgspec.structs.replace(error, rule="stall")):
        dispatcher.send(alert)
    dispatcher.send(msgspec.structs.replace(error, event="recovered", level="info"))
    dispatcher.finish()
    assert [("loss-diverged", "begun"), ("loss-diverged", "recovered")] == [(g["rule"], g["event"]) for g in hook.got]


def test_service_is_notified_by_apprise(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Apprise gets the address and a title; without the package, a line says how to install it."""
    told: list[dict[str, Any]] = []

    def notify(**said: Any) -> bool:
        told.append(said)
        return True

    service = SimpleNamespace(add=lambda address: address == "x://a", notify=notify)
    monkeypatch.setitem(sys.modules, "apprise", SimpleNamespace(Apprise=lambda: service))
    monkeypatch.setenv("PLACE", "a")
    dispatcher = _dispatcher({"apprise": "x://${PLACE}"}, {"apprise": "unknown"})
    dispatcher.send(ALERT)
    dispatcher.send(RECOVERED)
    dispatcher.finish()
    assert [("r-1: loss-spike", "warning"), ("r-1: loss-spike recovered", "success")] == [
        (each["title"], each["notify_type"]) for each in told
    ]
    assert ["loss of *** is 9 (step 7)", "recovered: loss is 2 again (step 7)"] == [each["body"] for each in told]
    assert "apprise does not know an address" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "apprise", None)
    dispatcher = _dispatcher({"apprise": "x://a"})
    dispatcher.send(ALERT)
    dispatcher.finish()
    assert "pip install 'toyspec[apprise]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, "needs one of command, webhook and apprise"),
        ({"command": "a", "webhook": "http://x"}, "needs one of"),
        ({"webhok": "http://x"}, "did you mean 'webhook'"),
        ({"webhook": "ftp://x"}, "begins with https:// or http://"),
        ({"webhook": "https://${NOT_SET_AT_ALL}"}, "environment variable NOT_SET_AT_ALL is not set"),
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
