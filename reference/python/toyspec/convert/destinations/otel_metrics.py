"""Metrics of OpenTelemetry, sent as OTLP in JSON over HTTP."""

from __future__ import annotations

import math
import os
import re
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

import msgspec

from toyspec.convert.destinations.destination import Destination, Lost, ServiceRefusedError, binary64_of, null_as_nan
from toyspec.convert.reports import NO_PLACE
from toyspec.core.runs.run_facts import planned_of, progress_of, remaining_of, settings_of
from toyspec.core.system_calls import say
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.run_items import Item, ItemRow

_OWN: Final = "toyspec."
_OF_RUN: Final = f"{_OWN}run."
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


class OtelMetrics(Destination):
    """The metrics of runs, each value with the time of its record, as gauges.

    A collector does not say what it has: what is sent twice has the same name, attributes, time and value both times.
    """

    carried: ClassVar = {"alert": None, "resume": None, "fact": ("name", "group"), "end": ("reason",)}

    def __init__(self, into: str | None = None) -> None:
        """Send to the collector at the address *into*."""
        super().__init__(into)
        self._endpoint = _endpoint(into)
        self._settings: dict[str, Any] = {}
        self._first: tuple[int, float] | None = None
        """Step and time of the first values of the present attempt."""
        self._points: dict[str, list[dict[str, Any]]] = {}
        """The points of the next request, by the name of their metric."""
        self._started: float | None = None
        self._refused = 0

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Begin the run; a collector cannot say how many rows it has."""
        del place
        if getattr(self, "run", None) != run:
            self.run, self._settings, self._first = run, settings_of(run.start), None
        return None

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Send the values of *rows* with the times of their records."""
        self._points = {}
        lost: list[Lost] = []
        for row in rows:
            self._add_run(row)
            lost += super().put([row])
            if sum(map(len, self._points.values())) >= _MOST_POINTS:
                self._send()
        self._send()
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Add a number to the request."""
        if item.kind == "measure":
            self._add(metric_name(item.name), binary64_of(item), item.t, {"toyspec.metric": item.name})
            yield from null_as_nan(item)
        else:
            yield Lost(NO_PLACE, item)

    def close(self, end: Ending | None) -> None:
        """Send that the run has ended, and how."""
        if end is not None:
            self._add(f"{_OF_RUN}ended", 1.0, end.t, {"reason": end.reason})
            self._send()

    def _add_run(self, row: ItemRow) -> None:
        """Add the values of the run itself at *row*: its alerts, and with numbers its step and how far it is."""
        for item in row.items:
            if item.kind == "resume":
                self._first = None
                self._settings |= settings_of({"config": item.value.get("config") or {}})
            elif item.kind == "alert":
                attributes = {key: str(item.value.get(key)) for key in ("rule", "level")}
                self._add(f"{_OF_RUN}alerts", row.alerts, row.t, attributes)
        if row.step is None or all(item.kind != "measure" for item in row.items):
            return
        # The pace is that of the present attempt: the time that a run lay still is not training.
        first, began = self._first = self._first or (row.step, row.t)
        planned = planned_of(self._settings)
        found = {
            "step": row.step,
            "progress": progress_of(row.step, planned),
            "remaining": remaining_of(row.t - began, (first + 1, row.step), planned),
        }
        for name, value in found.items():
            if value is not None:
                self._add(f"{_OF_RUN}{name}", value, row.t)

    def _add(self, name: str, value: float, t: float, attributes: Mapping[str, str] | None = None) -> None:
        number = float(value)
        # JSON has no such numbers; those of Protobuf are these texts.
        shown = number if math.isfinite(number) else "NaN" if math.isnan(number) else f"{'-' * (number < 0)}Infinity"
        point = {"attributes": _attributes(attributes or {}), "timeUnixNano": str(self._time(t)), "asDouble": shown}
        self._points.setdefault(name, []).append(point)

    def _time(self, t: float) -> int:
        """Return the time of a record *t* seconds after the start, in nanoseconds since the Unix epoch."""
        if self._started is None:
            # A run that does not say when it started is taken to be where it is now.
            self._started = time.time() - t if self.run.started is None else self.run.started
        return int(self._started) * _NANOSECONDS + round((self._started % 1.0 + t) * _NANOSECONDS)

    def _send(self) -> None:
        """Send the request; report how many of its values the collector has refused."""
        from urllib.request import Request, urlopen

        metrics = [{"name": name, "gauge": {"dataPoints": points}} for name, points in self._points.items()]
        self._points = {}
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
        run = self.run
        found = {
            "service.name": run.project,
            "service.instance.id": run.key,
            "toyspec.run.id": run.run_id,
            "toyspec.run.name": run.name,
        }
        return found if run.group is None else {**found, "toyspec.run.group": run.group}


class _PartialSuccess(msgspec.Struct):
    refused: int = msgspec.field(default=0, name="rejectedDataPoints")
    message: str = msgspec.field(default="", name="errorMessage")


class _Answer(msgspec.Struct):
    partial_success: _PartialSuccess | None = msgspec.field(default=None, name="partialSuccess")


def metric_name(metric: str) -> str:
    """Return what *metric* is called there: signs that OpenTelemetry does not allow are written as their code."""
    allowed = _NOT_ALLOWED.sub(lambda found: f"_x{ord(found[0]):x}_", metric)
    # What is below `run` says something of the run itself.
    prefix = f"{_OWN}metric." if re.match(r"run([^A-Za-z0-9]|$)", allowed) else _OWN
    name = prefix + allowed
    if len(name) > _MOST_CHARS:
        digest = sha256(metric.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = f"{name[: _MOST_CHARS - 9]}_{digest}"
    return name


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
