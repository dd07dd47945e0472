"""What happens on an alert: a command, a webhook or a service gets it, from a thread for which nothing waits.

The tables ``[[alerts]]`` of ``toyspec.toml`` say what; ``schemas/meta/alerts.json`` says what their members mean, and
``schemas/report/v1/alert.json`` what is sent.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.format.redaction import text_without_secrets
from toyspec.core.programs import run_command
from toyspec.core.reading.configuration import ALLOWED, distrust
from toyspec.core.system_calls import cause_of, say
from toyspec.health.rules import HealthRuleError, Level, is_among, meant, misplaced, read_each
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toyspec.core.reading.configuration import Configuration
    from toyspec.health.alerts import HealthAlert

GUARDED: Final = "TOYSPEC_GUARDED"
"""Environment variable that ``toyspec guard`` sets: it acts on alerts, and the program does not."""

_MOST_WAITING: Final = 100
_SECONDS_AT_END: Final = 10.0
_TRIES: Final = 4
_FIRST_PAUSE: Final = 1.0
_MOST_ANSWER: Final = 1 << 16
_ADDRESSES = ("webhook", "headers", "apprise")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Texts = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class AlertAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table: who gets which alerts. Exactly one of command, webhook and apprise is given."""

    command: Texts | None = None
    webhook: str | None = None
    apprise: Texts | None = None
    headers: dict[str, str] = {}
    level: Level = "warning"
    rules: tuple[str, ...] = ("*",)
    timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0

    @property
    def shown(self) -> str:
        """What the action is, without what may be secret: a webhook's path is a password."""
        if self.command is not None:
            return f"command {text_without_secrets(self.command[0])}"
        if self.webhook is not None:
            return f"webhook at {urlsplit(self.webhook).hostname}"
        return "apprise"


class DeliveryError(ToyspecError):
    """An alert could not be delivered; *may_pass* says whether trying again may help."""

    def __init__(self, fact: str, *, may_pass: bool) -> None:
        super().__init__(fact)
        self.may_pass = may_pass


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
    """Return the action in *table*; raise HealthRuleError, which names the key, for a wrong one.

    ``${NAME}`` in a webhook, in headers and in addresses of apprise is the environment variable of that name.
    """
    known = {field.name for field in msgspec.structs.fields(AlertAction)}
    for key in table:
        if key not in known:
            raise HealthRuleError(str(key), f"[[alerts]] has no key {key!r}{meant(str(key), known)}")
    _refuse_command_line(table.get("command"))
    given = {key: _with_variables(value, key) if key in _ADDRESSES else value for key, value in table.items()}
    for key in ("command", "apprise", "rules"):
        if isinstance(given.get(key), str):
            given[key] = [given[key]]
    try:
        action = msgspec.convert(given, AlertAction)
    except msgspec.ValidationError as error:
        raise misplaced(error) from None
    if sum(each is not None for each in (action.command, action.webhook, action.apprise)) != 1:
        raise HealthRuleError("", "[[alerts]] needs one of command, webhook and apprise")
    if action.webhook is not None and not re.match(r"https?://[^/]", action.webhook):
        raise HealthRuleError("webhook", "webhook must be an address that begins with https:// or http://")
    return action


def _refuse_command_line(program: Any) -> None:
    if isinstance(program, str) and len(program.split()) > 1 and shutil.which(program) is None:
        words = ", ".join(f'"{word}"' for word in program.split())
        raise HealthRuleError("command", f"no program has the name {program!r}; give its arguments apart: [{words}]")


def _with_variables(value: Any, key: str) -> Any:
    """Return *value* with the environment variables that its texts name; raise HealthRuleError where one is not set."""
    if isinstance(value, list):
        return [_with_variables(each, key) for each in value]
    if isinstance(value, dict):
        return {name: _with_variables(each, key) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    missing = [name for name in _VARIABLE.findall(value) if name not in os.environ]
    if missing:
        raise HealthRuleError(key, f"the environment variable {missing[0]} is not set")
    return _VARIABLE.sub(lambda found: os.environ[found[1]], value)


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

    ``send`` never waits and never raises. What fails is tried again while that may help, and reported on standard
    error once for each action; what does not fit into the queue is counted there.
    """

    def __init__(
        self, actions: Sequence[AlertAction], *, run: str, path: str, sleep: Callable[[float], object] | None = None
    ) -> None:
        self._actions = actions
        self._run = run
        self._path = path
        self._waiting: queue.Queue[tuple[AlertAction, dict[str, Any]] | None] = queue.Queue(_MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._failed: set[int] = set()
        self._announced: set[tuple[int, tuple[str, str | None, int | None]]] = set()
        self._given_up = threading.Event()
        self._sleep = sleep or self._given_up.wait
        self.lost = 0
        """Number of alerts that were not handed over, since too many waited."""

    def send(self, alert: HealthAlert) -> None:
        """Hand *alert* to each action that wants it: those of its level and its rule, and the end of what they had."""
        for at, action in enumerate(self._actions):
            key = (at, alert.subject)
            if alert.event == "recovered":
                if key not in self._announced:
                    continue
                self._announced.discard(key)
            elif not alert.is_at_least(action.level) or not is_among(alert.rule, action.rules):
                continue
            else:
                self._announced.add(key)
            self._put(action, message_of(alert, run=self._run, path=self._path))

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
            self._given_up.set()
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
        while (item := self._waiting.get()) is not None:
            if self._given_up.is_set():
                return
            action, message = item
            try:
                self._deliver(action, message)
            except Exception as error:  # noqa: BLE001 - training goes on, whatever a service or a command does
                # A message of an address, such as that of a service, may have the address in it.
                fact = str(error) if isinstance(error, DeliveryError) else text_without_secrets(cause_of(error))
                if id(action) not in self._failed:
                    self._failed.add(id(action))
                    say(f"alert {message['rule']}: {action.shown} failed: {fact}; later failures are not reported")

    def _deliver(self, action: AlertAction, message: dict[str, Any]) -> None:
        pause = _FIRST_PAUSE
        for left in reversed(range(_TRIES)):
            try:
                deliver(action, message)
            except DeliveryError as error:
                if not left or not error.may_pass or self._given_up.is_set():
                    raise
                self._sleep(pause)
                pause *= 2
            else:
                return


def deliver(action: AlertAction, message: Mapping[str, Any]) -> None:
    """Hand *message* to *action*; raise DeliveryError where that fails."""
    if action.command is not None:
        _run_command(action, msgspec.json.encode(message))
    elif action.webhook is not None:
        _post(action, action.webhook, msgspec.json.encode(message))
    else:
        _notify(action, message)


def _run_command(action: AlertAction, data: bytes) -> None:
    assert action.command is not None
    try:
        status = run_command(action.command, data, action.timeout)
    except OSError as error:
        raise DeliveryError(cause_of(error), may_pass=False) from None
    if status is None:
        raise DeliveryError(f"it did not end within {action.timeout:g} s", may_pass=False)
    if status:
        raise DeliveryError(f"it ended with status {status}", may_pass=False)


def _post(action: AlertAction, address: str, data: bytes) -> None:
    # Imported here: they take long to load, and few programs have a webhook.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"Content-Type": "application/json", "User-Agent": f"toyspec/{__version__}", **action.headers}
    try:
        request = Request(address, data=data, headers=headers, method="POST")  # noqa: S310 - http or https
        with urlopen(request, timeout=action.timeout) as answer:  # noqa: S310
            answer.read(_MOST_ANSWER)
    except HTTPError as error:
        error.close()
        too_soon = 429
        raise DeliveryError(f"HTTP status {error.code}", may_pass=error.code >= 500 or error.code == too_soon) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        fact = cause_of(reason) if isinstance(reason, BaseException) else str(reason)
        raise DeliveryError(text_without_secrets(fact), may_pass=True) from None
    except ValueError:
        # The text of such an error may have the address or a header in it.
        raise DeliveryError("the address or a header is not valid", may_pass=False) from None


def _notify(action: AlertAction, message: Mapping[str, Any]) -> None:
    try:
        import apprise
    except ImportError:
        fact = "apprise is not installed; install it with: python -m pip install 'toyspec[apprise]'"
        raise DeliveryError(fact, may_pass=False) from None
    service = apprise.Apprise()
    for address in action.apprise or ():
        if not service.add(address):
            raise DeliveryError("apprise does not know an address in it", may_pass=False)
    where = f"step {message['step']:g}" if "step" in message else message["at"]
    is_over = message["event"] == "recovered"
    title = f"{message['run']}: {message['rule']}{' recovered' if is_over else ''}"
    # Apprise calls an error a failure.
    kind = "success" if is_over else message["level"].replace("error", "failure")
    if not service.notify(title=title, body=f"{message['text']} ({where})", notify_type=kind):
        raise DeliveryError("apprise could not notify all services", may_pass=True)
