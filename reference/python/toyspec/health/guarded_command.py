"""The command that ``toyspec guard`` runs, and starts again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any, Literal

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.terminal import tell
from toyspec.core.programs import start_command, status_within
from toyspec.core.system_calls import cause_of
from toyspec.health.actions import GUARDED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toyspec.core.programs import Process
    from toyspec.health.guarded_runs import GuardedRuns

Cause = Literal["kill", "stall", "stop", "error"]
_MOST_BACKOFF_SECONDS = 600.0


class GuardedCommand:
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
        self._words = words
        self._runs = runs
        self._left = restarts
        self._causes = causes
        self._backoff = backoff_seconds
        self._grace = grace_seconds
        self._poll = poll_seconds
        self._obeys = obeys
        self._signal: int | None = None
        self._process: Process | None = None
        self._ended_for: Cause | None = None

    def run(self) -> int:
        """Run the command to its last end; return its status, 128 + N for signal N."""
        environment = {**os.environ, GUARDED: "1"}
        before = {number: signal.signal(number, self._forward) for number in (signal.SIGTERM, signal.SIGINT)}
        is_first = True
        try:
            while True:
                self._runs.begin(is_first=is_first)
                is_first = False
                status = self._attempt(environment)
                if not self._begins_again(self._cause(status)):
                    return status if status >= 0 else 128 - status
                environment["TOYSPEC_EXIST"] = "resume"
                if (run := self._runs.written_run) is not None:
                    environment["TOYSPEC_RUN_ID"] = run
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _begins_again(self, cause: Cause | None) -> bool:
        """Return whether the command begins again after it ended for *cause*, once its time has come."""
        if cause is None or not self._left or cause not in self._causes or self._is_signalled():
            return False
        self._left -= 1
        tell("guard", f"{_WORDS[cause]}; starting it again in {self._backoff:g} s, {self._left} restarts left")
        self._wait(self._backoff)
        self._backoff = min(2 * self._backoff, _MOST_BACKOFF_SECONDS)
        return not self._is_signalled()

    def _attempt(self, environment: dict[str, str]) -> int:
        self._ended_for = None
        options: dict[str, Any] = {} if os.name == "nt" else {"process_group": 0}
        try:
            process = start_command(self._words, environment, **options)
        except OSError as error:
            tell("guard", f"{self._words[0]}: {cause_of(error)}")
            return exit_codes.NOT_STARTED
        self._process = process
        try:
            while (status := status_within(process, self._poll)) is None:
                self._runs.poll()
                self._end_if_due(process)
        finally:
            self._process = None
        self._runs.poll_last()
        return status

    def _end_if_due(self, process: Process) -> None:
        """End a command that hangs and may be started again, and one for which a rule asked, where that is wanted."""
        may_restart = self._left > 0 and "stall" in self._causes
        cause: Cause | None = None
        if may_restart and self._runs.has_stalled:
            cause = "stall"
        elif self._obeys and self._runs.should_stop:
            cause = "stop"
        if cause is None:
            return
        self._ended_for = cause
        tell("guard", f"{_WORDS[cause]}; ending it by SIGTERM")
        _send(process, signal.SIGTERM)
        if status_within(process, self._grace) is None:
            tell("guard", f"it did not end within {self._grace:g} s; ending it by SIGKILL")
            _send(process, getattr(signal, "SIGKILL", signal.SIGTERM))
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

    def _forward(self, number: int, frame: object) -> None:
        del frame
        self._signal = number
        if self._process is not None:
            _send(self._process, signal.Signals(number))

    def _is_signalled(self) -> bool:
        return self._signal is not None

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._signal is None and (left := until - time.monotonic()) > 0:
            time.sleep(min(0.2, left))


_WORDS: dict[Cause, str] = {
    "kill": "the command was killed",
    "stall": "the command makes no progress",
    "stop": "a health rule asked the training to stop",
    "error": "the command failed",
}


def _send(process: Process, number: signal.Signals) -> None:
    """Send a signal to the command and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg") and process.poll() is None:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
