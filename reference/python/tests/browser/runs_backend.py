"""Serves the viewer with runs that a test made up: what `toyspec view` answers, without any file."""

from __future__ import annotations

import http.server
import json
import math
import queue
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from browser.serving import ROOT, Server

APP = ROOT / "reference/python/toyspec/view/app"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
LISTS = (
    *("findings", "gaps", "resumes", "evaluations", "samples", "notes", "comparisons", "artifacts"),
    *("histograms", "op_timings", "regions", "files"),
)
"""The lists of ``api/run``."""

Values = Sequence[float]


@dataclass
class MadeRun:
    """A run: its row in the list, its curves by metric, and more about it."""

    id: str
    curves: dict[str, Values] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    """More members of the header of each frame, such as gaps."""
    files: dict[str, bytes] = field(default_factory=dict)

    def listed(self) -> dict[str, Any]:
        """Return the run as ``api/runs`` lists it."""
        steps = max((len(values) for values in self.curves.values()), default=0)
        return {
            "id": self.id,
            "name": self.id.rsplit("/", 1)[-1],
            "group": None,
            "tags": [],
            "state": "complete",
            "profile": "toy/v1",
            "dialect": None,
            "started_at": "2026-11-22T10:30:00Z",
            "seconds": steps * 0.5,
            "first_step": 1 if steps else None,
            "last_step": steps,
            "records": steps,
            "run_id": None,
            "final_loss": None,
            "ended": "yes",
            "reason": None,
            "error": None,
            "sealed": False,
            "progress": None,
            "remaining": None,
            "bytes": 120 * steps,
            "findings": {"error": 0, "warning": 0, "info": 0},
            "config": {},
            "metrics": {name: facts_of(name, values) for name, values in self.curves.items()},
            "left_out": {"metrics": 0, "config": 0},
            "message": None,
        } | self.row

    def whole(self) -> dict[str, Any]:
        """Return the run as ``api/run`` gives it."""
        row = self.listed()
        return {
            "id": self.id,
            "row": row,
            "metadata": {},
            "end": None,
            "config": row["config"],
            "metrics": row["metrics"],
            "account": {"records": row["last_step"], "committed": row["bytes"], "size": row["bytes"]}
            | {"fragment": 0, "gap_bytes": 0},
            **{name: [] for name in LISTS},
            "left_out": {},
        } | self.detail

    def frame(self, metric: str, axis: str, span: tuple[float, float], buckets: int) -> bytes:
        """Return the frame of one curve; its places are 1, 2, …, for the time half of that."""
        values = self.curves[metric]
        scale = 0.5 if axis == "time" else 1.0
        low, high = max(0, math.floor(span[0] / scale) - 2), min(len(values), math.ceil(span[1] / scale) + 1)
        points = [(scale * (at + 1), values[at]) for at in range(low, high)] if high > low else []
        level = 1
        while len(points) / level > buckets:
            level *= 2
        columns = bucketed(points, level)
        header = {
            "run": self.id,
            "metric": metric,
            "attempt": "latest",
            "axes": [axis],
            "revision": "1",
            "points": len(values),
            "level": level,
            "buckets": len(columns["last"]),
            "range": {axis: [scale, scale * max(1, len(values))]},
            "best": best_of(values, axis, scale) if self.listed()["metrics"][metric]["goal"] else None,
        } | self.header
        return packed(header, {axis: columns.pop("place"), **columns})


def facts_of(name: str, values: Values) -> dict[str, Any]:
    """Return the facts about a metric that ``api/runs`` gives."""
    finite = [value for value in values if math.isfinite(value)]
    goal = "min" if "loss" in name else "max" if "acc" in name else None
    best = None if goal is None or not finite else min(finite) if goal == "min" else max(finite)
    return {
        "last": finite[-1] if finite else None,
        "best": best,
        "goal": goal,
        "count": len(values),
        "nan": len(values) - len(finite),
    }


def best_of(values: Values, axis: str, scale: float) -> dict[str, float]:
    """Return the lowest value and its place."""
    at = min((value, at) for at, value in enumerate(values) if math.isfinite(value))[1]
    return {axis: scale * (at + 1), "value": values[at]}


def bucketed(points: Sequence[tuple[float, float]], level: int) -> dict[str, list[float]]:
    """Return the columns of buckets of *level* points."""
    columns: dict[str, list[float]] = {name: [] for name in ("place", "last", "min", "max", "mean", "count", "nan")}
    for start in range(0, len(points), level):
        some = points[start : start + level]
        finite = [value for _, value in some if math.isfinite(value)] or [math.nan]
        row = (some[-1][0], finite[-1], min(finite), max(finite), sum(finite) / len(finite), len(some))
        lost = sum(not math.isfinite(value) for _, value in some)
        for name, value in zip(columns, (*row, lost), strict=True):
            columns[name].append(value)
    return columns


def packed(header: Mapping[str, Any], columns: Mapping[str, Sequence[float]]) -> bytes:
    """Return a frame: see ``reference/viewer/PROTOCOL.md``."""
    named = {**header, "columns": list(columns)}
    head = json.dumps(named).encode()
    head += b" " * (-len(head) % 8)
    body = b"".join(struct.pack(f"<{len(values)}d", *values) for values in columns.values())
    return struct.pack("<II", len(head), len(body)) + head + body


class Backend(http.server.BaseHTTPRequestHandler):
    """Answers the requests of the viewer."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: Any, made: Made) -> None:
        self._made = made
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        """Say that the stream of changes may be asked for; the viewer asks nothing else in this way."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """Answer a request."""
        address = urlsplit(self.path)
        query = parse_qs(address.query, keep_blank_values=True)
        answers: dict[str, Callable[[dict[str, list[str]]], None]] = {
            "/api/runs": self._runs,
            "/api/curve": self._curve,
            "/api/run": self._run,
            "/api/ranks": self._ranks,
            "/api/changes": self._changes,
            "/files": self._files,
            "/media": self._media,
        }
        if address.path in answers:
            answers[address.path](query)
            return
        file = APP / (address.path.strip("/") or "index.html")
        if file.parent == APP and file.is_file():
            self._send(file.read_bytes(), f"{TYPES[file.suffix]}; charset=utf-8")
        else:
            self._refuse(f"nothing is at {address.path}")

    def _runs(self, query: dict[str, list[str]]) -> None:
        listed = [run.listed() for run in self._made.runs.values()]
        about = {"revision": str(self._made.revision), "complete": True, "root": "runs", "version": "0.1.0"}
        whole = {**about, "runs": listed}
        self._send(json.dumps(whole).encode())

    def _curve(self, query: dict[str, list[str]]) -> None:
        axis = query.get("x", ["step"])[0]
        span = float(query.get("from", ["-1e300"])[0]), float(query.get("to", ["1e300"])[0])
        buckets = int(query["buckets"][0])
        span = max(span[0], 0.0), min(span[1], 1e9)
        runs = [self._made.runs[name] for name in query["run"] if name in self._made.runs]
        wanted = [(run, metric) for run in runs for metric in query["metric"] if metric in run.curves]
        frames = [run.frame(metric, axis, span, buckets) for run, metric in wanted]
        self._made.requests.append(self.path)
        self._send(b"".join(frames), "application/octet-stream")

    def _run(self, query: dict[str, list[str]]) -> None:
        run = self._made.runs.get(query["run"][0])
        if run is None:
            self._refuse("no such run")
        else:
            self._send(json.dumps(run.whole()).encode())

    def _ranks(self, _query: dict[str, list[str]]) -> None:
        self._send(b"null")

    def _files(self, query: dict[str, list[str]]) -> None:
        data = self._made.runs[query["run"][0]].files.get(query.get("path", ["events.jsonl"])[0], b"")
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = data[int(first) : int(last) + 1]
        self._send(part, "application/octet-stream", HTTPStatus.PARTIAL_CONTENT)

    def _media(self, query: dict[str, list[str]]) -> None:
        data = self._made.runs[query["run"][0]].files.get(query["sha256"][0])
        if data is None:
            self._refuse("the run has no such media file")
        else:
            self._send(data, query["type"][0])

    def _changes(self, query: dict[str, list[str]]) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        mine: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._made.listeners.append(mine)
        while (change := mine.get()) is not None:
            self.wfile.write(f"data: {json.dumps(change)}\n\n".encode())
            self.wfile.flush()

    def _refuse(self, message: str) -> None:
        self._send(json.dumps({"message": message}).encode(), status=HTTPStatus.NOT_FOUND)

    def _send(self, body: bytes, kind: str = "application/json", status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing: the tests see what the browser asked for."""


@dataclass
class Made:
    """The runs of a server, and who wants to know of changes."""

    runs: dict[str, MadeRun]
    revision: int = 1
    requests: list[str] = field(default_factory=list)
    listeners: list[queue.Queue[dict[str, Any] | None]] = field(default_factory=list)

    def grow(self, name: str, metric: str, values: Values) -> None:
        """Append *values* to a curve, and report it."""
        run = self.runs[name]
        run.curves[metric] = [*run.curves[metric], *values]
        self.revision += 1
        for listener in self.listeners:
            listener.put({"run": name, "bytes": 120 * len(run.curves[metric])})


@contextmanager
def serving_runs(runs: Sequence[MadeRun]) -> Iterator[tuple[str, Made]]:
    """Serve the viewer with *runs* at a free port of the loopback interface; yield its address and what it serves."""
    made = Made({run.id: run for run in runs})
    with Server(("127.0.0.1", 0), partial(Backend, made=made)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", made
        finally:
            for listener in made.listeners:
                listener.put(None)
            server.shutdown()
            thread.join()


def is_built() -> bool:
    """Return whether the viewer is there to be served."""
    return Path(APP, "index.html").exists()
