"""Metrics of OpenTelemetry by OTLP, through the exporter of its SDK."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from toyspec.convert.destinations.destination import Destination, Lost, ServiceRefusedError, binary64_of, null_as_nan
from toyspec.convert.destinations.telemetry import TelemetryNames, ending
from toyspec.convert.reports import NO_PLACE
from toyspec.convert.sources import needed
from toyspec.core.system_calls import say
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.destinations.telemetry import TelemetryName
    from toyspec.convert.run_items import Bins, Item, ItemRow

_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
_METRICS_PATH: Final = "/v1/metrics"
_MOST_POINTS: Final = 2_000
"""Most points in one request: collectors refuse what is too long."""
_NANOSECONDS: Final = 1_000_000_000


class OtelMetrics(Destination):
    """The metrics of runs, each value with the time of its record.

    A collector does not say what it has: what is sent twice has the same name, attributes, time and value both times.
    """

    def __init__(self, into: str | None = None) -> None:
        """Send to the collector at the address *into*; raise ImportError without the SDK and its exporter."""
        super().__init__(into)
        self._exporter_module = needed(_EXPORTER, "otel", "writing to OpenTelemetry")
        self._endpoint = None if into is None else _endpoint(into)
        self._exporter: Any = None
        self._complaints = _Complaints()
        self._names: TelemetryNames
        self._batch: _Batch
        self._units: dict[str, tuple[str, str]] = {}
        self._counted: dict[tuple[str, str], tuple[float, int]] = {}
        self._started: float | None = None
        self._refused = 0

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Make the exporter; a collector cannot say how many rows it has."""
        del place
        if getattr(self, "run", None) != run:
            self.run, self._names = run, TelemetryNames(run)
        try:
            self._exporter = self._exporter_module.OTLPMetricExporter(
                endpoint=self._endpoint, max_export_batch_size=_MOST_POINTS, session=self._session()
            )
        except ValueError as error:
            raise ServiceRefusedError(f"OpenTelemetry: {error}") from error
        self._complaints.listen()
        return None

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Send the values of *rows* with the times of their records."""
        self._batch = _Batch()
        lost: list[Lost] = []
        for row in rows:
            for name, value in self._names.of_run(row):
                self._add(name, value, self._time(row.t))
            lost += super().put([row])
        self._export(self._batch)
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Add a number or a histogram to the request; keep what a definition says."""
        match item.kind:
            case "measure":
                self._add(self._named(item.name), binary64_of(item), self._time(item.t))
                yield from null_as_nan(item)
            case "histogram" if all(type(count) is int for count in item.value.counts):
                self._batch.histogram(self._named(item.name), item.value, self._time(item.t))
            case "definition":
                unit, description = (
                    text if isinstance(text := item.value.get(key), str) else "" for key in ("unit", "description")
                )
                self._units[str(item.value.get("name"))] = (unit, description)
            case "alert" | "resume":
                pass
            case "fact" | "end" if item.name in ("name", "group", "reason"):
                pass
            case _:
                yield Lost(NO_PLACE, item)

    def close(self, end: Ending | None) -> None:
        """Send that the run has ended, and how; close the connection."""
        if self._exporter is None:
            return
        if end is not None:
            batch = _Batch()
            batch.gauge(*ending(end.reason), self._time(end.t))
            self._export(batch)
        exporter, self._exporter = self._exporter, None
        exporter.shutdown()
        self._complaints.stop()

    def _session(self) -> Any:
        """Return what requests are sent with; it reports what a collector has taken only in part."""
        session = needed("requests", "otel", "writing to OpenTelemetry").Session()
        session.hooks["response"].append(self._look_at)
        return session

    def _look_at(self, response: Any, **_: Any) -> None:
        """Report how many values a collector has refused in its answer, which the SDK does not read."""
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

        try:
            found = ExportMetricsServiceResponse.FromString(response.content).partial_success
        except DecodeError:
            return
        if response.ok and found.rejected_data_points:
            self._refused += int(found.rejected_data_points)
            why = found.error_message or "no reason given"
            say(f"otel: the collector refused {self._refused} values of run {self.run.run_id} so far: {why}")

    def _add(self, name: TelemetryName, value: float, at: int) -> None:
        if name.is_counter:
            self._batch.sum(name, value, at, self._counting_since(name, value, at))
        else:
            self._batch.gauge(name, value, at)

    def _named(self, metric: str) -> TelemetryName:
        name = self._names.of(metric)
        unit, description = self._units.get(metric, ("", ""))
        return name._replace(unit=name.unit or unit, description=description)

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

    def _export(self, batch: _Batch) -> None:
        if not batch.metrics:
            return
        data = batch.data(_resource_of(self.run, self._names))
        self._complaints.first = None
        if self._exporter.export(data).name != "SUCCESS":
            raise ConnectionError(self._complaints.first or "the collector did not take the metrics")


class _Batch:
    """The points of one request, by metric."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import export

        self._sdk: Any = export
        self.metrics: dict[tuple[str, str, str, str], list[Any]] = {}

    def gauge(self, name: TelemetryName, value: float, at: int) -> None:
        """Add a value of the time *at*."""
        self._add("gauge", name, self._sdk.NumberDataPoint(name.attributes, None, at, value))

    def sum(self, name: TelemetryName, value: float, at: int, since: int) -> None:
        """Add what was counted from *since* until *at*."""
        self._add("sum", name, self._sdk.NumberDataPoint(name.attributes, since, at, value))

    def histogram(self, name: TelemetryName, value: Bins, at: int) -> None:
        """Add a distribution; its sum is not known, and nothing lies beyond its outer edges."""
        point = self._sdk.HistogramDataPoint(
            attributes=name.attributes, start_time_unix_nano=at, time_unix_nano=at, count=sum(value.counts), sum=None,
            bucket_counts=[0, *value.counts, 0], explicit_bounds=value.edges, min=value.edges[0], max=value.edges[-1],
        )  # fmt: skip
        self._add("histogram", name, point)

    def data(self, resource: Any) -> Any:
        """Return the points as the exporter takes them."""
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        made = [
            self._sdk.Metric(name, description, unit, self._points(kind, points))
            for (kind, name, unit, description), points in self.metrics.items()
        ]
        scope = self._sdk.ScopeMetrics(InstrumentationScope("toyspec", __version__), made, "")
        return self._sdk.MetricsData([self._sdk.ResourceMetrics(resource, [scope], "")])

    def _points(self, kind: str, points: list[Any]) -> Any:
        if kind == "gauge":
            return self._sdk.Gauge(points)
        temporality = self._sdk.AggregationTemporality
        if kind == "sum":
            return self._sdk.Sum(points, temporality.CUMULATIVE, is_monotonic=True)
        return self._sdk.Histogram(points, temporality.DELTA)

    def _add(self, kind: str, name: TelemetryName, point: Any) -> None:
        self.metrics.setdefault((kind, name.name, name.unit, name.description), []).append(point)


class _Complaints(logging.Handler):
    """What the exporter logs first of a request, which is why it failed; it goes nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.first: str | None = None
        self._logger = logging.getLogger(_EXPORTER)
        self._propagates = self._logger.propagate

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first message."""
        self.first = self.first or record.getMessage()

    def listen(self) -> None:
        """Take the messages of the exporter."""
        self._logger.addHandler(self)
        self._logger.propagate = False

    def stop(self) -> None:
        """Leave them to others again."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagates


def _endpoint(address: str) -> str:
    """Return the address that metrics are sent to: *address*, with the standard path where it has none."""
    scheme, found, rest = address.partition("://")
    if not found or scheme not in ("http", "https") or not rest:
        raise ServiceRefusedError(f"{address}: OpenTelemetry needs an address such as http://localhost:4318")
    return address if rest.rstrip("/").count("/") else address.rstrip("/") + _METRICS_PATH


def _resource_of(run: RunHead, names: TelemetryNames) -> Any:
    """Return what the metrics are of; the id of the instance is that of no other run."""
    from opentelemetry.sdk.resources import Resource

    found: dict[str, str] = {
        "service.name": run.project,
        "service.instance.id": run.key,
        "toyspec.run.id": run.run_id,
        "toyspec.run.name": run.name,
    }
    if run.group is not None:
        found["toyspec.run.group"] = run.group
    if names.is_reinforcement_learning:
        found |= {"rl.run.id": run.run_id, **names.attributes}
    return Resource(found)
