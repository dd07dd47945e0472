"""A server of the viewer on loopback and the requests of its tests."""

from __future__ import annotations

import http.client
import json
import struct
import tempfile
import threading
import time
from array import array
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from toyspec.view.curve_store import CurveStore
from toyspec.view.live_runs import LiveRuns
from toyspec.view.scanning import quick_row, scan_stream
from toyspec.view.server import ViewServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pytest

    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.view.scanning import ScanWork

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run","config":{"lr":0.1}}\n'
END = b'{"kind":"run_end","t":9e9,"reason":"completed"}\n'


def step(number: int, loss: float | None = 1.25) -> bytes:
    """Return one step."""
    return b'{"kind":"step","t":%d.5,"step":%d,"loss":%b}\n' % (number, number, json.dumps(loss).encode())


def write_run(folder: Path, *lines: bytes) -> Path:
    """Write a run directory and return its stream."""
    folder.mkdir(parents=True)
    stream = folder / "events.jsonl"
    stream.write_bytes(b"".join(lines))
    return stream


def row_with_late_quick_row(root: Path, run: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the row of *run* when its scan ends while a request makes the row of the ends of its stream."""
    catalog = LiveRuns(str(root), store=CurveStore(str(cache)))
    catalog._watches[0].walk()
    entry = catalog.entry(run)
    assert entry is not None
    # A second scan goes on, so that nothing is checked yet.
    catalog._pending = {entry.path: Future(), "another": Future()}

    def late(work: ScanWork, dialect: DialectChoice) -> dict[str, Any]:
        catalog._take_scanned(scan_stream(work, catalog.store, dialect))
        return quick_row(work, dialect)

    monkeypatch.setattr("toyspec.view.live_runs.quick_row", late)
    row = catalog.row(entry)
    catalog.close()
    return row


class Client:
    """Sends requests to a server, each on a connection of its own."""

    def __init__(self, server: ViewServer) -> None:
        self.server = server

    def get(self, path: str, *, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of an answer; ``_`` in the name of a header stands for ``-``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str, **query: str) -> Any:
        """Return the JSON value of an answer that must be a success."""
        status, _, body = self.get(f"{path}?{urlencode(query)}")
        assert status == 200, body
        return json.loads(body)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the row of each run by its id."""
        return {row["id"]: row for row in self.json("/api/runs")["runs"]}

    def settled_rows(self) -> dict[str, dict[str, Any]]:
        """Return the row of each run by its id, once every run was scanned, and checked if it is not being written."""
        self.until(
            lambda: all(
                row["state"] != "unread" and (row["findings"] is not None or row["message"] or _is_live(row))
                for row in self.rows().values()
            )
        )
        return self.rows()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until *holds* returns what is true."""
        deadline = time.monotonic() + 300
        while not holds():
            assert time.monotonic() < deadline, self.json("/api/runs")
            time.sleep(0.02)

    def curves(self, metric: str, *runs: str, **query: object) -> list[tuple[dict[str, Any], dict[str, array[float]]]]:
        """Return header and columns of each frame of curves."""
        named = "".join(f"&run={quote(run)}" for run in runs)
        status, _, body = self.get(f"/api/curve?{urlencode({'metric': metric, **query})}{named}")
        assert status == 200, body
        return list(frames(body))


def _is_live(row: dict[str, Any]) -> bool:
    return row["state"] == "running" and row["records"] is not None


def frames(data: bytes) -> Iterator[tuple[dict[str, Any], dict[str, array[float]]]]:
    """Yield header and columns of each frame in *data*."""
    at = 0
    while at < len(data):
        size, columns = struct.unpack_from("<II", data, at)
        assert (0, 0) == (size % 8, columns % 8)
        header = json.loads(data[at + 8 : at + 8 + size])
        at += 8 + size
        yield header, _columns(header, data[at : at + columns])
        at += columns


def _columns(header: dict[str, Any], data: bytes) -> dict[str, array[float]]:
    """Return the columns of a frame, and that of values that are not finite where there are any."""
    found, at, count = dict[str, "array[float]"](), 0, header.get("buckets", 0)
    for name, sent in header.get("columns", {}).items():
        if isinstance(sent, list):
            first, difference, last = sent
            found[name] = array("d", [*(first + number * difference for number in range(count - 1)), last])
            continue
        column = array({"f4": "f", "f8": "d"}[sent])
        end = at + count * column.itemsize
        column.frombytes(data[at:end])
        found[name], at = array("d", column), end + -end % 8
    assert at == len(data)
    if "nan" in header:
        found["nan"] = array("d", [dict(header["nan"]).get(at, 0) for at in range(count)])
    return found


@contextmanager
def served(root: Path | Sequence[str], cache: Path | None = None, **options: Any) -> Iterator[Client]:
    """Serve the runs below *root*, or below each of several, until the end of the block; *cache* is left at its end."""
    roots = root if isinstance(root, list) else [str(root)]
    made = tempfile.TemporaryDirectory()
    catalog = LiveRuns(*roots, store=CurveStore(str(cache or made.name)))
    catalog.start()
    server = ViewServer(catalog, **options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Client(server)
    finally:
        server.shutdown()
        thread.join()
        server.close()
        catalog.close()
        made.cleanup()
