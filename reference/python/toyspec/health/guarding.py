"""What ``toyspec guard`` does: it watches the runs at a path."""

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
from toyspec.health.checking import WatchedRun
from toyspec.health.options import alert_line

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.health.actions import AlertAction
    from toyspec.health.rules import AnyRule, HealthAlert

_SEARCH_SECONDS = 2.0
_MOST_RUNS = 200


class GuardedRuns:
    """The runs at one path."""

    def __init__(
        self, options: Namespace, rules: Sequence[AnyRule], choice: DialectChoice, actions: Sequence[AlertAction]
    ) -> None:
        """Watch the runs of the command's *options* by *rules*, whose alerts *actions* get."""
        self._options, self._rules, self._choice, self._actions = options, rules, choice, actions
        self._terminal = Terminal(sys.stderr, color=options.color)
        self._runs: dict[str, tuple[WatchedRun, AlertDispatcher]] = {}
        self._next_search = 0.0
        self._last = time.monotonic()
        self._is_too_many = False
        self.begun: list[HealthAlert] = []
        """The incidents so far."""

    @property
    def have_ended(self) -> bool:
        """True where there are runs, and all have ended."""
        return bool(self._runs) and all(run.has_ended for run, _ in self._runs.values())

    @property
    def idle_seconds(self) -> float:
        """Seconds since a run grew or was found."""
        return time.monotonic() - max([self._last, *(run.last_growth for run, _ in self._runs.values())])

    @property
    def is_empty(self) -> bool:
        """True where no run was found, so that no rule had anything to look at."""
        return not self._runs

    def poll(self) -> None:
        """Look for runs, and at each; show what is new."""
        if time.monotonic() >= self._next_search:
            self._search()
        for run, dispatcher in self._runs.values():
            for path, alert in run.poll():
                self._hand_on(path, run, alert)
                dispatcher.send(alert, path=path)

    def close(self) -> None:
        """Wait a bounded time for alerts that are on their way, and close the files."""
        for run, dispatcher in self._runs.values():
            dispatcher.finish()
            run.close()

    def _search(self) -> None:
        self._next_search = time.monotonic() + _SEARCH_SECONDS
        for found in find_streams(self._options.runs, hints=self._choice.stream_files):
            if not isinstance(found, Stream):
                continue
            path = found.path
            if path not in self._runs:
                if len(self._runs) >= _MOST_RUNS:
                    if not self._is_too_many:
                        self._is_too_many = True
                        tell("guard", f"more than {_MOST_RUNS} runs; later ones are not watched")
                    continue
                run = WatchedRun(path, self._rules, self._choice)
                self._runs[path] = run, AlertDispatcher(self._actions, run=run.name, path=path)
                self._last = time.monotonic()
            for stream in ranks_beside(path).values():
                self._runs[path][0].add(stream)

    def _hand_on(self, path: str, run: WatchedRun, alert: HealthAlert) -> None:
        self.begun += [alert] if alert.event == "begun" else []
        self._terminal.line(f"toyspec guard: {shown(run.name)}: {alert_line(alert, self._terminal)}")
        if self._options.json:
            sys.stdout.write(inert_json(message_of(alert, run=run.name, path=path)) + "\n")
            sys.stdout.flush()
