"""What ``toyspec guard`` does: watches the runs at a path, and runs a command that it may start again."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.programs import Forwarding, send_signal, start_command, status_within
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.core.system_calls import cause_of
from toyspec.health.actions import GUARDED, AlertDispatcher, message_of
from toyspec.health.checking import WatchedRun
from toyspec.health.options import alert_line
from toyspec.health.rules import StallRule

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toyspec.core.command_line.terminal import ColorChoice
    from toyspec.core.programs import Process
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.health.actions import AlertAction
    from toyspec.health.alerts import HealthAlert
    from toyspec.health.rules import AnyRule, Level

_SEARCH_SECONDS = 2.0
_MOST_RUNS = 200
_MOST_BACKOFF_SECONDS = 600.0

Cause = Literal["kill", "stall", "stop", "error"]
_WORDS: dict[Cause, str] = {
    "kill": "the command was killed",
    "stall": "the command makes no progress",
    "stop": "a health rule asked the training to stop",
    "error": "the command failed",
}


class GuardedRuns:
    """The runs at one path."""

    def __init__(  # noqa: PLR0913 - what is watched, by what, and what happens then
        self,
        path: str,
        rules: Sequence[AnyRule],
        choice: DialectChoice,
        actions: Sequence[AlertAction],
        *,
        color: ColorChoice = "auto",
        writes_json: bool = False,
    ) -> None:
        self._path = path
        self._rules = rules
        self._choice = choice
        self._actions = actions
        self._terminal = Terminal(sys.stderr, color=color)
        self._writes_json = writes_json
        self._runs: dict[str, WatchedRun] = {}
        self._dispatchers: dict[str, AlertDispatcher] = {}
        self._next_search = 0.0
        self._last = time.monotonic()
        self._attempt: list[HealthAlert] = []
        self._old: set[str] = set()
        self._is_written = False
        self._is_too_many = False

    @property
    def have_ended(self) -> bool:
        """True where there are runs, and all have ended."""
        return bool(self._runs) and all(run.has_ended for run in self._runs.values())

    @property
    def idle_seconds(self) -> float:
        """Seconds since a run grew or was found."""
        return time.monotonic() - self._last

    @property
    def has_stalled(self) -> bool:
        """True where a stall of this attempt goes on."""
        stalls = {rule.name for rule in self._rules if isinstance(rule, StallRule)}
        events = [alert.event for alert in self._attempt if alert.rule in stalls]
        return bool(events) and events[-1] == "begun"

    @property
    def should_stop(self) -> bool:
        """True once a rule of this attempt asked for a stop."""
        return any(alert.stop for alert in self._attempt)

    @property
    def is_untouched(self) -> bool:
        """True where no run was found or written since the watch began, so that no rule had anything to look at."""
        return not self._is_written and not self._written()

    @property
    def written_run(self) -> str | None:
        """Id of the one run that this attempt writes; None if it wrote none, or several."""
        names = {run.name for run in self._written()}
        return names.pop() if len(names) == 1 else None

    def has_alert(self, level: Level) -> bool:
        """Return whether an incident of this attempt began that is as serious as *level*."""
        return any(alert.event == "begun" and alert.is_at_least(level) for alert in self._attempt)

    def begin(self, *, is_first: bool) -> None:
        """Begin an attempt: what the logs have by now was before it."""
        self._attempt = []
        self._is_written = not is_first and not self.is_untouched
        if is_first:
            self._search()
            for run in self._runs.values():
                run.poll()
        self._old = set(self._runs)
        for run in self._runs.values():
            run.restart_clock()

    def poll_last(self) -> None:
        """Look at what a command that has ended wrote last, also into runs that were not found by then."""
        self._next_search = 0.0
        # What a file shows for the first time as NUL bytes is read by the second poll.
        self.poll()
        self.poll()

    def poll(self) -> None:
        """Look for runs, and at each; show what is new."""
        if time.monotonic() >= self._next_search:
            self._search()
        for path, run in list(self._runs.items()):
            for alert in run.poll():
                self._last = time.monotonic()
                self._hand_on(path, run, alert)

    def close(self) -> None:
        """Wait a bounded time for alerts that are on their way, and close the files."""
        for dispatcher in self._dispatchers.values():
            dispatcher.finish()
        for run in self._runs.values():
            run.close()

    def _written(self) -> list[WatchedRun]:
        return [run for path, run in self._runs.items() if run.has_grown or path not in self._old]

    def _search(self) -> None:
        self._next_search = time.monotonic() + _SEARCH_SECONDS
        for found in find_streams(self._path, hints=self._choice.stream_files):
            if not isinstance(found, Stream):
                continue
            path = found.path
            if path not in self._runs:
                if len(self._runs) >= _MOST_RUNS:
                    if not self._is_too_many:
                        self._is_too_many = True
                        tell("guard", f"more than {_MOST_RUNS} runs; later ones are not watched")
                    continue
                self._runs[path] = WatchedRun(path, self._rules, self._choice)
                self._dispatchers[path] = AlertDispatcher(self._actions, run=self._runs[path].name, path=path)
                self._last = time.monotonic()
            for stream in ranks_beside(path).values():
                self._runs[path].add(stream)

    def _hand_on(self, path: str, run: WatchedRun, alert: HealthAlert) -> None:
        self._attempt.append(alert)
        sys.stderr.flush()
        self._terminal.line(f"toyspec guard: {shown(run.name)}: {alert_line(alert, self._terminal)}")
        if self._writes_json:
            sys.stdout.write(inert_json(message_of(alert, run=run.name, path=path)) + "\n")
            sys.stdout.flush()
        self._dispatchers[path].send(alert)


class GuardedCommand(Forwarding):
    """A command, and how often it may be started again, after which causes."""

    def __init__(  # noqa: PLR0913 - the options of the command
        self,
        words: Sequence[str],
        runs: GuardedRuns,
        *,
        restarts: int,
        causes: Collection[str],
        backoff_seconds: float,
        grace_seconds: float,
        poll_seconds: float,
        obeys: bool,
    ) -> None:
        super().__init__()
        self._words = words
        self._runs = runs
        self._left = restarts
        self._causes = causes
        self._backoff = backoff_seconds
        self._grace = grace_seconds
        self._poll = poll_seconds
        self._obeys = obeys
        self._ended_for: Cause | None = None

    def run(self) -> int:
        """Run the command to its last end; return its status, 128 + N for signal N."""
        environment = {**os.environ, GUARDED: "1"}
        is_first = True
        with self:
            while True:
                self._runs.begin(is_first=is_first)
                is_first = False
                status = self._attempt(environment)
                if not self._begins_again(self._cause(status)):
                    return status if status >= 0 else 128 - status
                environment["TOYSPEC_EXIST"] = "resume"
                if (run := self._runs.written_run) is not None:
                    environment["TOYSPEC_RUN_ID"] = run

    def _begins_again(self, cause: Cause | None) -> bool:
        """Return whether the command begins again after it ended for *cause*, once its time has come."""
        if cause is None or not self._left or cause not in self._causes or self.signal is not None:
            return False
        self._left -= 1
        tell("guard", f"{_WORDS[cause]}; starting it again in {self._backoff:g} s, {self._left} restarts left")
        until = time.monotonic() + self._backoff
        while self.signal is None and (left := until - time.monotonic()) > 0:
            time.sleep(min(0.2, left))
        self._backoff = min(2 * self._backoff, _MOST_BACKOFF_SECONDS)
        return self.signal is None

    def _attempt(self, environment: dict[str, str]) -> int:
        self._ended_for = None
        options: dict[str, Any] = {} if os.name == "nt" else {"process_group": 0}
        try:
            self.process = process = start_command(self._words, environment, **options)
        except OSError as error:
            tell("guard", f"{self._words[0]}: {cause_of(error)}")
            return exit_codes.NOT_STARTED
        try:
            while (status := status_within(process, self._poll)) is None:
                self._runs.poll()
                self._end_if_due(process)
        finally:
            self.process = None
        self._runs.poll_last()
        return status

    def _end_if_due(self, process: Process) -> None:
        """End a command that hangs and may be started again, and one for which a rule asked, where that is wanted."""
        cause: Cause | None = None
        if self._left > 0 and "stall" in self._causes and self._runs.has_stalled:
            cause = "stall"
        elif self._obeys and self._runs.should_stop:
            cause = "stop"
        if cause is None:
            return
        self._ended_for = cause
        tell("guard", f"{_WORDS[cause]}; ending it by SIGTERM")
        send_signal(process, signal.SIGTERM)
        if status_within(process, self._grace) is None:
            tell("guard", f"it did not end within {self._grace:g} s; ending it by SIGKILL")
            send_signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.wait()

    def _cause(self, status: int) -> Cause | None:
        """Return why the command ended; None where it ended as it should."""
        if self._ended_for is not None:
            return self._ended_for
        if self._runs.should_stop:
            return "stop"
        if status < 0 or status in (128 + signal.SIGTERM, 137):
            return "kill"
        return "error" if status else None
