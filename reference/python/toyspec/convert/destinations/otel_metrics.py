"""Metrics of OpenTelemetry, sent as OTLP in JSON over HTTP, by the names of schemas/telemetry.json."""

from __future__ import annotations

import math
import os
import re
import time
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from toyspec.convert.destinations.destination import Destination, Lost, ServiceRefusedError, binary64_of, null_as_nan
from toyspec.convert.reports import NO_PLACE
from toyspec.core.generated.telemetry import METRICS, OF_REINFORCEMENT_LEARNING, RUN, SETTINGS
from toyspec.core.runs.run_facts import planned_of, progress_of, remaining_of, settings_of
from toyspec.core.system_calls import say
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Bins, Item, ItemRow

_OWN: Final = "toyspec."
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_./-]")
_MOST_CHARS: Final = 255
_ENVIRONMENT: Final = "OTEL_EXPORTER_OTLP"
_DEFAULT_ADDRESS: Final = "http://localhost:4318"
_METRICS_PATH: Final = "/v1/metrics"
_SECONDS: Final = 10.0
_MOST_POINTS: Final = 2_000
"""About the most points in one request: collectors refuse what is too long."""
_MOST_ANSWER_BYTES: Final = 1 << 16
_NANOSECONDS: Final = 1_000_000_000
# The numbers are those of the enumeration AggregationTemporality.
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "gauge": {},
    "sum": {"aggregationTemporality": 2, "isMonotonic": True},
    "histogram": {"aggregationTemporality": 1},
}


class TelemetryName(NamedTuple):
    """What one metric is called."""

    name: str
    attributes: dict[str, str]
    """``toyspec.metric``, the name in the log, by which metrics of one *name* differ; and those of the proposal."""
    unit: str = ""
    description: str = ""
    is_counter: bool = False
    """Whether the value counts up from the start of the run, and falls only where training goes back."""


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

    def of_run(self, row: ItemRow) -> Iterator[tuple[TelemetryName, float]]:
        """Yield the values of the run itself at *row*: its alerts, and with numbers its step and how far it is."""
        for item in row.items:
            if item.kind == "resume":
                self._first = None
                self._settings |= settings_of({"config": item.value.get("config") or {}})
            elif item.kind == "alert":
                rule, level = (str(item.value.get(key)) for key in ("rule", "level"))
                yield _of_run("toyspec.run.alerts", rule=rule, level=level), row.alerts
        if row.step is None or all(item.kind != "measure" for item in row.items):
            return
        # The pace is that of the present attempt: the time that a run lay still is not training.
        first, began = self._first = self._first or (row.step, row.t)
        yield _of_run("toyspec.run.step"), row.step
        if self.is_reinforcement_learning:
            yield _of_run("rl.train.steps"), row.step
        planned = planned_of(self._settings)
        progress = progress_of(row.step, planned)
        if progress is not None:
            yield _of_run("toyspec.run.progress"), progress
        remaining = remaining_of(row.t - began, (first + 1, row.step), planned)
        if remaining is not None:
            yield _of_run("toyspec.run.remaining"), remaining

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


class OtelMetrics(Destination):
    """The metrics of runs, each value with the time of its record.

    A collector does not say what it has: what is sent twice has the same name, attributes, time and value both times.
    """

    carried: ClassVar = {"alert": None, "resume": None, "fact": ("name", "group"), "end": ("reason",)}

    def __init__(self, into: str | None = None) -> None:
        """Send to the collector at the address *into*."""
        super().__init__(into)
        self._endpoint = _endpoint(into)
        self._names: TelemetryNames
        self._metrics: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        """The metrics of the next request, by kind and name."""
        self._points = 0
        self._units: dict[str, tuple[str, str]] = {}
        self._counted: dict[tuple[str, str], tuple[float, int]] = {}
        self._started: float | None = None
        self._refused = 0

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Begin the run; a collector cannot say how many rows it has."""
        del place
        if getattr(self, "run", None) != run:
            self.run, self._names = run, TelemetryNames(run)
        return None

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Send the values of *rows* with the times of their records."""
        self._metrics, self._points = {}, 0
        lost: list[Lost] = []
        for row in rows:
            for name, value in self._names.of_run(row):
                self._add(name, value, row.t)
            lost += super().put([row])
            if self._points >= _MOST_POINTS:
                self._send()
        self._send()
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Add a number or a histogram to the request; keep what a definition says."""
        match item.kind:
            case "measure":
                self._add(self._named(item.name), binary64_of(item), item.t)
                yield from null_as_nan(item)
            case "histogram" if all(type(count) is int for count in item.value.counts):
                self._add_histogram(self._named(item.name), item.value, item.t)
            case "definition":
                unit, description = (
                    text if isinstance(text := item.value.get(key), str) else "" for key in ("unit", "description")
                )
                self._units[str(item.value.get("name"))] = (unit, description)
            case _:
                yield Lost(NO_PLACE, item)

    def close(self, end: Ending | None) -> None:
        """Send that the run has ended, and how."""
        if end is not None:
            self._add(_of_run("toyspec.run.ended", reason=end.reason), 1.0, end.t)
            self._send()

    def _named(self, metric: str) -> TelemetryName:
        name = self._names.of(metric)
        unit, description = self._units.get(metric, ("", ""))
        return name._replace(unit=name.unit or unit, description=description)

    def _add(self, name: TelemetryName, value: float, t: float) -> None:
        at = self._time(t)
        number = float(value)
        # JSON has no such numbers; those of Protobuf are these texts.
        shown = number if math.isfinite(number) else "NaN" if math.isnan(number) else f"{'-' * (number < 0)}Infinity"
        point = {"attributes": _attributes(name.attributes), "timeUnixNano": str(at), "asDouble": shown}
        if name.is_counter:
            point["startTimeUnixNano"] = str(self._counting_since(name, number, at))
        self._point("sum" if name.is_counter else "gauge", name, point)

    def _add_histogram(self, name: TelemetryName, value: Bins, t: float) -> None:
        """Add a distribution; its sum is not known, and nothing lies beyond its outer edges."""
        at = str(self._time(t))
        point = {
            "attributes": _attributes(name.attributes), "startTimeUnixNano": at, "timeUnixNano": at,
            "count": str(sum(value.counts)), "bucketCounts": [str(count) for count in (0, *value.counts, 0)],
            "explicitBounds": value.edges, "min": value.edges[0], "max": value.edges[-1],
        }  # fmt: skip
        self._point("histogram", name, point)

    def _point(self, kind: str, name: TelemetryName, point: dict[str, Any]) -> None:
        made: dict[str, Any] = {"name": name.name, "unit": name.unit, "description": name.description}
        made[kind] = {**_KINDS[kind], "dataPoints": []}
        metric = self._metrics.setdefault((kind, name.name, name.unit, name.description), made)
        metric[kind]["dataPoints"].append(point)
        self._points += 1

    def _counting_since(self, name: TelemetryName, value: float, at: int) -> int:
        """Return since when *value* counts: the start of the run, or where it has fallen since training went back."""
        key = (name.name, str(name.attributes))
        before, since = self._counted.get(key, (0.0, self._time(0.0)))
        since = at if value < before else since
        self._counted[key] = (value, since)
        return since

    def _time(self, t: float) -> int:
        """Return the time of a record *t* seconds after the start, in nanoseconds since the Unix epoch."""
        if self._started is None:
            # A run that does not say when it started is taken to be where it is now.
            self._started = time.time() - t if self.run.started is None else self.run.started
        return int(self._started) * _NANOSECONDS + round((self._started % 1.0 + t) * _NANOSECONDS)

    def _send(self) -> None:
        """Send the request; report how many of its values the collector has refused."""
        from urllib.request import Request, urlopen

        metrics, self._metrics, self._points = list(self._metrics.values()), {}, 0
        if not metrics:
            return
        scope = {"scope": {"name": "toyspec", "version": __version__}, "metrics": metrics}
        resource = {"attributes": _attributes(self._resource())}
        data = msgspec.json.encode({"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]})
        request = Request(self._endpoint, data, _headers(), method="POST")  # noqa: S310 - http or https
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            body = answer.read(_MOST_ANSWER_BYTES)
        try:
            found = msgspec.json.decode(body, type=_Answer, strict=False).partial_success
        except msgspec.MsgspecError:
            return
        if found is not None and found.refused:
            self._refused += found.refused
            why = found.message or "no reason given"
            say(f"otel: the collector refused {self._refused} values of run {self.run.run_id} so far: {why}")

    def _resource(self) -> dict[str, str]:
        """Return what the metrics are of; the id of the instance is that of no other run."""
        run, names = self.run, self._names
        found = {
            "service.name": run.project,
            "service.instance.id": run.key,
            "toyspec.run.id": run.run_id,
            "toyspec.run.name": run.name,
        }
        if run.group is not None:
            found["toyspec.run.group"] = run.group
        if names.is_reinforcement_learning:
            found |= {"rl.run.id": run.run_id, **names.attributes}
        return found


class _PartialSuccess(msgspec.Struct):
    refused: int = msgspec.field(default=0, name="rejectedDataPoints")
    message: str = msgspec.field(default="", name="errorMessage")


class _Answer(msgspec.Struct):
    partial_success: _PartialSuccess | None = msgspec.field(default=None, name="partialSuccess")


def _attributes(found: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in found.items()]


def _setting(name: str) -> str:
    """Return what the environment has for metrics, else for all signals."""
    return os.environ.get(f"{_ENVIRONMENT}_METRICS_{name}") or os.environ.get(f"{_ENVIRONMENT}_{name}") or ""


def _headers() -> dict[str, str]:
    """Return the headers of a request, with those that the environment has, such as a key."""
    pairs = (pair.partition("=") for pair in _setting("HEADERS").split(",") if "=" in pair)
    own = {"Content-Type": "application/json", "User-Agent": f"toyspec/{__version__}"}
    return {**own, **{name.strip(): unquote(value.strip()) for name, _, value in pairs}}


def _endpoint(into: str | None) -> str:
    """Return the address that metrics are sent to: that of the collector, with the standard path where it has none."""
    exact = None if into else os.environ.get(f"{_ENVIRONMENT}_METRICS_ENDPOINT")
    address = exact or into or os.environ.get(f"{_ENVIRONMENT}_ENDPOINT") or _DEFAULT_ADDRESS
    scheme, _, rest = address.partition("://")
    if scheme not in ("http", "https") or not rest:
        raise ServiceRefusedError(f"{address}: OpenTelemetry needs an address such as {_DEFAULT_ADDRESS}")
    # The path of an address for all signals is that of its collector, to which that of metrics is added.
    has_path = exact is not None or (into is not None and "/" in rest.rstrip("/"))
    return address if has_path else address.rstrip("/") + _METRICS_PATH


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
