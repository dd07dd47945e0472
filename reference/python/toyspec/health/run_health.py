"""Compares a run with health rules while it is written: writes alerts, and lets the loop ask whether to stop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from toyspec.core.reading.configuration import Configuration, find_configuration
from toyspec.core.reading.records import Record
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.companions import Companionship
from toyspec.health.actions import AlertDispatcher, action_of, actions_by
from toyspec.health.evaluator import NO_PROGRESS, HealthEvaluator
from toyspec.health.rules import read_each, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toyspec.core.generated.toy_v1 import Step
    from toyspec.core.writing.run_writer import RunWriter
    from toyspec.health.actions import AlertAction
    from toyspec.health.rules import AnyRule, HealthAlert

_POLL_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 2.0


class Health:
    """Health rules that a run is compared with while it is written, and what gets its alerts; see ``start_run``.

    A rule never stops or slows the training; the loop may ask ``run.should_stop``.
    """

    def __init__(
        self,
        rules: bool | str | Sequence[Mapping[str, Any]] = True,
        *,
        alerts: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Take *rules*: ``"default"``, ``"rl"`` or ``"strict"``, a list of rules, or with True those of the project.

        Each incident goes to *alerts*: tables as ``[[alerts]]`` of ``toyspec.toml`` has them, by default these. Raise
        ValueError for a wrong one, and ConfigurationError for a wrong one in the settings of the project.
        """
        configuration = find_configuration() if rules is True or alerts is None else Configuration()
        self._rules = rules_of(configuration if isinstance(rules, bool) else rules)
        self._actions: Sequence[AlertAction] = (
            actions_by(configuration) if alerts is None else read_each(alerts, action_of, "alerts", None)
        )

    def started(self, run: RunWriter) -> RunHealth:
        """Return what looks at each record of *run* from now on."""
        return RunHealth(run, self._rules, self._actions)


class RunHealth(Companionship):
    """The health rules of one run in this process.

    It looks at each record that was written, and now and then, in a thread of its own, at the time since the last one.
    An alert is written into the run, printed, and handed to the actions. Whatever fails, training goes
    on: an error ends the watch, which standard error reports.
    """

    def __init__(
        self,
        run: RunWriter,
        rules: Sequence[AnyRule],
        actions: Sequence[AlertAction],
    ) -> None:
        self._run = run
        self._evaluator: HealthEvaluator | None = HealthEvaluator(rules)
        self._dispatcher = AlertDispatcher(actions, run=run.run_id, path=run.events_path)
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._stop_alert: HealthAlert | None = None
        self._is_obeyed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._poll_until_stopped, name="toyspec-health", daemon=True)
        self._thread.start()

    @property
    def should_stop(self) -> bool:  # type: ignore[override]
        """True once a rule with ``on="stop"`` was broken in this attempt."""
        self._is_obeyed = self._is_obeyed or self._stop_alert is not None
        return self._stop_alert is not None

    @property
    def verdict(self) -> dict[str, Any] | None:  # type: ignore[override]
        """The end of a run whose loop asked, and was asked to stop; None for every other one."""
        if self._stop_alert is None or not self._is_obeyed:
            return None
        return {"reason": "aborted", "error": f"stopped by {self._stop_alert.rule}: {self._stop_alert.text}"}

    def ending(self) -> None:
        """End the watch; wait at most some seconds for alerts that are on their way."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)
        self._dispatcher.finish()

    def record(self, line: bytes, kind: str, _step: Step | None) -> None:
        """Look at a record that is in the stream now."""

        def take(evaluator: HealthEvaluator) -> list[HealthAlert]:
            if kind not in NO_PROGRESS:
                self._last = time.monotonic()
            if kind in ("run_resume", "run_start"):
                self._stop_alert, self._is_obeyed = None, False
            found = evaluator.take(Record(line, 0, 0, "toy/v1", kind))
            # A record after run_end would open the run again.
            return [] if kind == "run_end" else found

        if kind != "alert":
            self._look(take)

    def poll(self) -> None:
        """Look at the time since the last record."""
        if self._run.active and not self._run.resumes:
            self._look(lambda evaluator: evaluator.idle(time.monotonic() - self._last))

    def _look(self, take: Callable[[HealthEvaluator], Sequence[HealthAlert]]) -> None:
        """Report what *take* finds; an error ends the watch."""
        evaluator = self._evaluator
        if evaluator is None:
            return
        try:
            with self._lock:
                found = take(evaluator)
            self._report(found)
        except Exception as error:  # noqa: BLE001 - training goes on
            self._evaluator = None
            say(f"{self._run.events_path}: health rules fail ({cause_of(error)}); the run is not watched from now on")

    def _poll_until_stopped(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            self.poll()

    def _report(self, found: Sequence[HealthAlert]) -> None:
        for alert in found:
            if alert.stop and self._stop_alert is None:
                self._stop_alert = alert
            # While a record is written, this waits until that is done.
            self._run.write({"kind": "alert", **alert.event_members})
            step = "" if alert.step is None else f" at step {alert.step:g}"
            level = alert.level if alert.event == "begun" else alert.event
            say(f"{self._run.run_id}: {level}: {alert.rule}{step}: {alert.fact}")
            self._dispatcher.send(alert)
