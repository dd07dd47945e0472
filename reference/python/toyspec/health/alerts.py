"""What a health rule reports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toyspec.health.rules import LEVELS, Level

if TYPE_CHECKING:
    from toyspec.health.rules import HealthRule


_RECOVERED = "recovered: "
"""What the text of the end of an incident begins with, for people."""


class HealthAlert(msgspec.Struct, frozen=True, kw_only=True):
    """The begin or the end of one incident: a rule that a metric, a process or the run breaks."""

    rule: str
    """Name of the rule."""
    level: Level
    """How serious it is; the end of an incident is an info."""
    text: str
    """What happened, with the numbers; names from the log are in it unchanged."""
    event: Literal["begun", "recovered"] = "begun"
    metric: str | None = None
    """Name of the metric concerned."""
    value: float | None = None
    """Its value; None where it was not finite."""
    threshold: float | None = None
    """The bound that the value was compared with."""
    step: int | float | None = None
    """Step at which it happened; None in a log without steps."""
    time: float | None = None
    """Seconds, as the record has them."""
    rank: int | None = None
    """Number of the process concerned, from 0; None for a run of one process."""
    line: int | None = None
    """Line of the record, counted from 1; None where no record says it, as for a stall that goes on."""
    offset: int | None = None
    """Byte offset of that line."""
    stop: bool = False
    """Whether the rule asks the training to stop."""

    @property
    def subject(self) -> tuple[str, str | None, int | None]:
        """What an incident is about, the same at its begin and at its end: rule, metric and rank."""
        return self.rule, self.metric, self.rank

    @property
    def fact(self) -> str:
        """What happened, without the word that says whether an incident begins or ends."""
        return self.text.removeprefix(_RECOVERED) if self.event == "recovered" else self.text

    def is_at_least(self, level: Level) -> bool:
        """Return whether this is as serious as *level*, or more."""
        return LEVELS.index(self.level) >= LEVELS.index(level)

    @property
    def event_members(self) -> dict[str, Any]:
        """The members of an ``alert`` event that says the same; without ``t``."""
        event = None if self.event == "begun" else self.event
        named = {"event": event, "metric": self.metric, "threshold": self.threshold, "rank": self.rank}
        members: dict[str, Any] = {"rule": self.rule, "level": self.level, "text": self.text}
        members |= {key: value for key, value in named.items() if value is not None}
        if self.metric is not None:
            members["value"] = self.value
        if type(self.step) is int and self.step >= 0:
            members["step"] = self.step
        return members


def begun(rule: HealthRule, text: str, **members: Any) -> HealthAlert:
    """Return the begin of an incident of *rule*."""
    return HealthAlert(rule=rule.name, level=rule.level, text=text, stop=rule.on == "stop", **members)


def recovered(rule: HealthRule, text: str, **members: Any) -> HealthAlert:
    """Return the end of an incident of *rule*."""
    return HealthAlert(rule=rule.name, level="info", text=f"{_RECOVERED}{text}", event="recovered", **members)


class Incidents:
    """The incidents of one run, as they begin and end."""

    def __init__(self) -> None:
        self.by_rule: Counter[str] = Counter()
        """Number of incidents by the name of their rule."""
        self._open: dict[tuple[str, str | None, int | None], HealthAlert] = {}

    def take(self, alert: HealthAlert) -> None:
        """Add the begin or the end of an incident."""
        self._open.pop(alert.subject, None)
        if alert.event == "begun":
            self.by_rule[alert.rule] += 1
            self._open[alert.subject] = alert

    @property
    def open(self) -> tuple[HealthAlert, ...]:
        """Those that have not ended, the newest last."""
        return tuple(self._open.values())

    @property
    def counts(self) -> dict[str, int]:
        """The fields ``alerts`` and ``open_alerts`` of the run."""
        return {"alerts": self.by_rule.total(), "open_alerts": len(self._open)}
