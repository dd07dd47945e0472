"""What happens on an alert: a command gets it, from a thread for which nothing waits.

The tables ``[[alerts]]`` of ``toyspec.toml`` say which; ``schemas/meta/alerts.json`` says what their members mean, and
``schemas/report/v1/alert.json`` what is sent.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from toyspec.core.format.redaction import text_without_secrets
from toyspec.core.programs import run_command
from toyspec.core.reading.configuration import ALLOWED, distrust
from toyspec.core.system_calls import cause_of, say
from toyspec.health.rules import HealthRuleError, Level, demand_known, is_among, misplaced, read_each
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.reading.configuration import Configuration
    from toyspec.health.rules import HealthAlert

_MOST_WAITING: Final = 100
_SECONDS_AT_END: Final = 10.0
_SECONDS_BETWEEN: Final = 3600.0


class AlertAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table: the command that gets alerts, and which."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    level: Level = "warning"
    rules: tuple[str, ...] = ("*",)
    timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0


def actions_by(configuration: Configuration, runs: str | None = None) -> tuple[AlertAction, ...]:
    """Return what the settings say; raise ConfigurationError, which names file, line and key, for a wrong table.

    Those of a file that may be another user's, or is in *runs*, are ignored, which standard error reports.
    """
    path = configuration.path
    if configuration.alerts and path is not None and (reason := distrust(path, runs)):
        say(f"{path}: [[alerts]] are ignored: {reason}; to allow them, set {ALLOWED}={os.path.realpath(path)}")
        return ()
    return tuple(read_each(configuration.alerts, action_of, "alerts", path))


def action_of(table: Mapping[str, Any]) -> AlertAction:
    """Return the action in *table*; raise HealthRuleError, which names the key, for a wrong one."""
    demand_known(table, AlertAction.__struct_fields__, "[[alerts]]")
    if table.get("command") is None:
        raise HealthRuleError("", "[[alerts]] needs a command")
    given = {
        key: [value] if key in ("command", "rules") and isinstance(value, str) else value
        for key, value in table.items()
    }
    try:
        return msgspec.convert(given, AlertAction)
    except msgspec.ValidationError as error:
        raise misplaced(error) from None


def message_of(alert: HealthAlert, *, run: str, path: str) -> dict[str, Any]:
    """Return what is sent of *alert*; secrets in texts of the log are replaced."""
    found = msgspec.to_builtins(alert) | {"run": run, "path": path}
    del found["offset"]
    return {
        "toyspec": __version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        **{
            key: text_without_secrets(value) if isinstance(value, str) else value
            for key, value in found.items()
            if value is not None
        },
    }


class AlertDispatcher:
    """Hands alerts to actions, one after the other, in a thread that starts with the first.

    ``send`` never waits and never raises. What fails is reported on standard error once for each action; what does not
    fit into the queue is counted there.
    """

    def __init__(self, actions: Sequence[AlertAction], *, run: str, path: str) -> None:
        self._actions = actions
        self._run = run
        self._path = path
        self._waiting: queue.Queue[tuple[AlertAction, dict[str, Any]] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._sent: dict[tuple[int, str], float] = {}
        self._announced: set[tuple[int, tuple[str, str | None, int]]] = set()
        self._is_given_up = False
        self.lost = 0
        """Number of alerts that were not handed over, since too many waited."""

    def send(self, alert: HealthAlert, *, path: str | None = None) -> None:
        """Hand *alert* to each action that wants it: those of its level and its rule, and the end of what they had.

        Its line is in the stream at *path*, by default the one of the run.

        Of the incidents of a rule that do not ask to stop, an action gets one an hour.
        """
        for at, action in enumerate(self._actions):
            key = (at, alert.subject)
            if alert.event == "begun":
                is_wanted = alert.is_at_least(action.level) and is_among(alert.rule, action.rules)
                if not is_wanted or self._is_flood(at, alert):
                    continue
                self._announced.add(key)
            elif key not in self._announced:
                continue
            elif alert.event == "recovered":
                self._announced.discard(key)
            self._put(action, message_of(alert, run=self._run, path=path or self._path))

    def _is_flood(self, at: int, alert: HealthAlert) -> bool:
        """Return whether the action had an incident of the rule within the last hour; one that asks to stop is none."""
        now, key = time.monotonic(), (at, alert.rule)
        if not alert.stop and now - self._sent.get(key, -math.inf) < _SECONDS_BETWEEN:
            return True
        self._sent[key] = now
        return False

    def finish(self, seconds: float = _SECONDS_AT_END) -> None:
        """Wait at most *seconds* until everything is handed over, and give up what is left."""
        thread = self._thread
        if thread is None or self._pid != os.getpid() or thread is threading.current_thread():
            return
        until = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=seconds)
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            self._is_given_up = True
            say(f"alerts of {self._run}: {self._waiting.qsize()} were not handed over within {seconds:g} s; given up")
        self._thread = None
        if self.lost:
            say(f"alerts of {self._run}: {self.lost} were not handed over, since {_MOST_WAITING} waited")

    def _put(self, action: AlertAction, message: dict[str, Any]) -> None:
        if self._pid != os.getpid():
            return
        try:
            self._waiting.put_nowait((action, message))
        except queue.Full:
            self.lost += 1
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="toyspec-alerts", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        failed: set[int] = set()
        while (item := self._waiting.get()) is not None and not self._is_given_up:
            action, message = item
            failure = _failure(action, message)
            if failure is not None and id(action) not in failed:
                failed.add(id(action))
                command = text_without_secrets(action.command[0])
                say(f"alert {message['rule']}: command {command} failed: {failure}; later failures are not reported")


def _failure(action: AlertAction, message: Mapping[str, Any]) -> str | None:
    """Run the command of *action* with *message* on its standard input; return why that failed."""
    try:
        status = run_command(action.command, msgspec.json.encode(message), action.timeout)
    except Exception as error:  # noqa: BLE001 - what ends this thread would take the later alerts with it
        return cause_of(error)
    if status is None:
        return f"it did not end within {action.timeout:g} s"
    return f"it ended with status {status}" if status else None
