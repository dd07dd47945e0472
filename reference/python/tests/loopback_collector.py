"""A collector of OpenTelemetry on loopback, which keeps what it is sent, and fails on purpose."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

CollectorBehaviour = Literal["good", "fails", "keeps and fails", "refuses one"]


class ReceivedPoint(NamedTuple):
    """One value as it has arrived."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    time: int
    """Nanoseconds since the Unix epoch."""
    value: float
    """Of a histogram, the number of its elements."""


class LoopbackCollector:
    """Keeps points in memory; *behaviours* are those of its next requests, afterwards it is good."""

    def __init__(self, behaviours: Sequence[CollectorBehaviour] = ()) -> None:
        self.points: list[ReceivedPoint] = []
        self.resources: list[dict[str, str]] = []
        self.metrics: dict[str, Any] = {}
        """The last message of each metric, by its name."""
        self.paths: set[str] = set()
        self.headers: dict[str, str] = {}
        left = list(behaviours)
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                behaviour = left.pop(0) if left else "good"
                collector.paths.add(self.path)
                collector.headers = {name.lower(): value for name, value in self.headers.items()}
                answer: dict[str, Any] = {"partialSuccess": {}}
                if behaviour != "fails":
                    collector._keep(sent)
                if behaviour == "refuses one":
                    answer["partialSuccess"] = {"rejectedDataPoints": "1", "errorMessage": "too old"}
                body = json.dumps(answer).encode()
                self.send_response(500 if "fails" in behaviour else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def of(self, name: str) -> list[float]:
        """Return the values of the metric *name*, each once, in the order of their times."""
        found = {(point.time, point.attributes, point.value) for point in self.points if point.name == name}
        return [value for *_, value in sorted(found)]

    def _keep(self, sent: Any) -> None:
        for resource in sent["resourceMetrics"]:
            self.resources.append(_texts(resource["resource"]["attributes"]))
            for metric in (metric for scope in resource["scopeMetrics"] for metric in scope["metrics"]):
                self.metrics[metric["name"]] = metric
                (kind,) = metric.keys() - {"name", "unit", "description"}
                for point in metric[kind]["dataPoints"]:
                    attributes = tuple(sorted(_texts(point["attributes"]).items()))
                    value = float(point["count" if kind == "histogram" else "asDouble"])
                    self.points.append(ReceivedPoint(metric["name"], attributes, int(point["timeUnixNano"]), value))


def _texts(attributes: list[Any]) -> dict[str, str]:
    return {each["key"]: each["value"]["stringValue"] for each in attributes}
