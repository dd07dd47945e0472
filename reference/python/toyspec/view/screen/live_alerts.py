"""What health rules report about the runs on the screen, while they are written."""

from __future__ import annotations

import copy
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toyspec.core.errors import ToyspecError
from toyspec.core.reading.run_files import ranks_beside
from toyspec.health.alerts import Incidents
from toyspec.health.checking import WatchedRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.health.alerts import HealthAlert
    from toyspec.health.rules import AnyRule

_POLL_SECONDS = 1.0
_MOST_RUNS = 100


class RunAlerts(NamedTuple):
    """The incidents of one run."""

    incidents: Incidents
    last: HealthAlert
    """The last begin or end of one."""
    number: int
    """Larger than that of all alerts before, of any run."""


class LiveAlerts:
    """Compares runs with health rules in a thread of its own: a long log must not hold up the screen."""

    def __init__(self, rules: Sequence[AnyRule], choice: DialectChoice) -> None:
        self._rules = rules
        self._choice = choice
        self._wanted: Mapping[str, str] = {}
        self._runs: dict[str, WatchedRun] = {}
        self._number = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="toyspec-watch-alerts", daemon=True)
        self.found: Mapping[str, RunAlerts] = {}
        """The incidents of each run that has any, by its id; another mapping after each change."""

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def want(self, runs: Mapping[str, str]) -> None:
        """Watch *runs*, paths of streams by the ids of their runs, from now on: the first ones of very many."""
        self._wanted = dict(list(runs.items())[:_MOST_RUNS])

    def close(self) -> None:
        """Stop watching; a log that is being read does not hold this up."""
        self._ended.set()
        self._thread.join(_POLL_SECONDS)

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            wanted = self._wanted
            for run in self._runs.keys() - wanted.keys():
                self._runs.pop(run).close()
            for run, path in wanted.items():
                with suppress(OSError, ToyspecError):
                    self._poll(run, path)
        for watched in self._runs.values():
            watched.close()

    def _poll(self, run: str, path: str) -> None:
        watched = self._runs.get(run)
        if watched is None:
            # Begun again, so that what was known is evaluated once more.
            self.found = {known: alerts for known, alerts in self.found.items() if known != run}
            watched = self._runs[run] = WatchedRun(path, self._rules, self._choice)
        for stream in ranks_beside(path).values():
            watched.add(stream)
        for alert in watched.poll():
            self._take(run, alert)

    def _take(self, run: str, alert: HealthAlert) -> None:
        known = self.found.get(run)
        # The screen reads what it was given meanwhile.
        incidents = Incidents() if known is None else copy.deepcopy(known.incidents)
        incidents.take(alert)
        self._number += 1
        self.found = {**self.found, run: RunAlerts(incidents, alert, self._number)}
