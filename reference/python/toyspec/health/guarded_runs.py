"""The runs that ``toyspec guard`` watches: finds them, polls them, and hands on their alerts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from toyspec.core.command_line.figures import shown
from toyspec.core.command_line.objects import inert_json
from toyspec.core.command_line.terminal import Terminal, tell
from toyspec.core.reading.run_files import ranks_beside
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.health.actions import AlertDispatcher, message_of
from toyspec.health.live import WatchedRun
from toyspec.health.options import alert_line
from toyspec.health.rules import StallRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.core.command_line.terminal import ColorChoice
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.health.actions import AlertAction
    from toyspec.health.alerts import HealthAlert
    from toyspec.health.rules import AnyRule, Level

_SEARCH_SECONDS = 2.0
_MOST_RUNS = 200


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
        self._stalls = frozenset(rule.name for rule in rules if isinstance(rule, StallRule))
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
        events = [alert.event for alert in self._attempt if alert.rule in self._stalls]
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
                self._last = time.monotonic()
            self._add_ranks(path)

    def _add_ranks(self, path: str) -> None:
        for stream in ranks_beside(path).values():
            self._runs[path].add(stream)

    def _hand_on(self, path: str, run: WatchedRun, alert: HealthAlert) -> None:
        self._attempt.append(alert)
        sys.stderr.flush()
        self._terminal.line(f"toyspec guard: {shown(run.name)}: {alert_line(alert, self._terminal)}")
        if self._writes_json:
            sys.stdout.write(inert_json(message_of(alert, run=run.name, path=path)) + "\n")
            sys.stdout.flush()
        if path not in self._dispatchers:
            self._dispatchers[path] = AlertDispatcher(self._actions, run=run.name, path=path)
        self._dispatchers[path].send(alert)
