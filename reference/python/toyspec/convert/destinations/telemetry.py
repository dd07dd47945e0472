"""Says what the metrics of a run are called in OpenTelemetry and Prometheus: by schemas/telemetry.json."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toyspec.core.generated.telemetry import METRICS, OF_REINFORCEMENT_LEARNING, RUN, SETTINGS
from toyspec.core.runs.run_facts import planned_of, progress_of, remaining_of, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.destinations.destination import RunHead
    from toyspec.convert.run_items import ItemRow

_OWN: Final = "toyspec."
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_./-]")
_MOST_CHARS: Final = 255

REMAINING: Final = "toyspec.run.remaining"
"""The time that a run still takes, which an ended one does not have."""


class TelemetryName(NamedTuple):
    """What one metric is called."""

    name: str
    attributes: dict[str, str]
    """``toyspec.metric``, the name in the log, by which metrics of one *name* differ; and those of the proposal."""
    unit: str = ""
    description: str = ""
    is_counter: bool = False
    """Whether the value counts up from the start of the run, and falls only where training goes back."""


class RunValue(NamedTuple):
    """A value of the run itself at one row."""

    name: TelemetryName
    value: float


class TelemetryNames:
    """The names of one run; those of the learner are ``rl.*`` only where its settings name what is learned."""

    def __init__(self, run: RunHead) -> None:
        self._settings = settings_of(run.start)
        self.attributes = self._described()
        """What is known of the run as a whole: algorithm, environment, model."""
        self.is_reinforcement_learning = any(name in self.attributes for name in OF_REINFORCEMENT_LEARNING)
        self._names: dict[str, TelemetryName] = {}
        self._first: tuple[int, float] | None = None

    def of(self, metric: str) -> TelemetryName:
        """Return what *metric* is called."""
        found = self._names.get(metric)
        if found is None:
            found = self._names[metric] = self._proposed(metric) or _own(metric)
        return found

    def of_run(self, row: ItemRow) -> Iterator[RunValue]:
        """Yield the values of the run itself at *row*: its alerts, and with numbers its step and how far it is."""
        for item in row.items:
            if item.kind == "resume":
                self._first = None
                self._settings |= settings_of({"config": item.value.get("config") or {}})
            elif item.kind == "alert":
                rule, level = (str(item.value.get(key)) for key in ("rule", "level"))
                yield RunValue(_of_run("toyspec.run.alerts", rule=rule, level=level), row.alerts)
        if row.step is None or all(item.kind != "measure" for item in row.items):
            return
        # The pace is that of the present attempt: the time that a run lay still is not training.
        first, began = self._first = self._first or (row.step, row.t)
        yield RunValue(_of_run("toyspec.run.step"), row.step)
        if self.is_reinforcement_learning:
            yield RunValue(_of_run("rl.train.steps"), row.step)
        progress = progress_of(row.step, self._settings)
        if progress is not None:
            yield RunValue(_of_run("toyspec.run.progress"), progress)
        remaining = remaining_of(row.t - began, (first + 1, row.step), planned_of(self._settings))
        if remaining is not None:
            yield RunValue(_of_run(REMAINING), remaining)

    def _described(self) -> dict[str, str]:
        short = {name.rpartition(".")[2].lower(): value for name, value in reversed(self._settings.items())}
        found = {}
        for attribute, keys in SETTINGS.items():
            value = next((short[key] for key in keys if isinstance(short.get(key), str) and short[key]), None)
            if value is not None:
                found[attribute] = value
        return found

    def _proposed(self, metric: str) -> TelemetryName | None:
        lower = metric.lower()
        for entry in METRICS:
            is_here = self.is_reinforcement_learning or not entry.get("learner")
            if is_here and any(fnmatchcase(lower, pattern) for pattern in entry["of"]):
                attributes = {"toyspec.metric": metric, **entry.get("attributes", {})}
                return _described(entry, entry["name"], attributes)
        return None


def ending(reason: str) -> RunValue:
    """Return what is sent once a run has ended for *reason*."""
    return RunValue(_of_run("toyspec.run.ended", reason=reason), 1.0)


def _of_run(name: str, **attributes: str) -> TelemetryName:
    return _described(RUN[name], name, attributes)


def _described(entry: dict[str, Any], name: str, attributes: dict[str, str]) -> TelemetryName:
    unit, description = entry.get("unit", ""), entry.get("description", "")
    return TelemetryName(name, attributes, unit, description, bool(entry.get("counter")))


def _own(metric: str) -> TelemetryName:
    """Return a name of the project's own: signs that OpenTelemetry does not allow are written as their code."""
    allowed = _NOT_ALLOWED.sub(lambda found: f"_x{ord(found[0]):x}_", metric)
    # What is below `run` says something of the run itself.
    prefix = f"{_OWN}metric." if re.match(r"run([^A-Za-z0-9]|$)", allowed) else _OWN
    name = prefix + allowed
    if len(name) > _MOST_CHARS:
        digest = sha256(metric.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = f"{name[: _MOST_CHARS - 9]}_{digest}"
    return TelemetryName(name, {"toyspec.metric": metric})
