"""Services that fail on purpose: rows of mirrors arrive at a server on loopback, which says what it has kept."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from toyspec.convert.destinations.destination import Destination, Ending, Lost, RunHead
from toyspec.convert.mirrors.mirroring import Timing
from toyspec.convert.run_items import ItemRow

Behaviour = Literal["good", "refuses", "keeps and fails", "keeps half and fails", "hangs up"]
Knowledge = Literal["counts", "is asked", "has ids"]

FAST = Timing(poll=0.01, first_retry=0.001, longest_retry=0.01)


class RowService:
    """A server that keeps rows in memory; *behaviours* are those of its next calls, afterwards it is good."""

    def __init__(self, behaviours: Sequence[Behaviour] = ()) -> None:
        self.rows: list[dict[str, Any]] = []
        self.endings: list[str] = []
        self._behaviours = list(behaviours)
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                rows = [row for row in service.rows if row["run"] == self.path[1:]]
                self._answer(200, json.dumps(rows).encode())

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                behaviour = service._behaviours.pop(0) if service._behaviours else "good"
                if behaviour == "hangs up":
                    self.connection.close()
                    return
                service.take(sent, behaviour)
                self._answer(200 if behaviour == "good" else 503, b"{}")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._lock = threading.Lock()

    def take(self, sent: dict[str, Any], behaviour: Behaviour) -> None:
        """Keep what *behaviour* lets it keep."""
        with self._lock:
            rows = sent.get("rows", [])
            kept = {"refuses": 0, "keeps half and fails": len(rows) // 2}.get(behaviour, len(rows))
            known = {row["id"] for row in self.rows if row["id"] is not None}
            self.rows += [row for row in rows[:kept] if row["id"] not in known]
            if "ending" in sent and behaviour != "refuses":
                self.endings.append(sent["ending"])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class HttpDestination(Destination):
    """A run in a RowService, which knows what it has in one of three ways."""

    def __init__(self, url: str, knowledge: Knowledge) -> None:
        super().__init__(url)
        self._knowledge = knowledge

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Return the number after its last row where the service counts them."""
        self.run = run
        rows = self._call(None)
        return 1 + max((row["number"] for row in rows), default=-1) if self._knowledge == "counts" else None

    def missing(self, rows: Sequence[ItemRow]) -> Sequence[ItemRow]:
        """Return the rows that the service does not have, where it is asked."""
        if self._knowledge != "is asked":
            return rows
        there = {row["number"] for row in self._call(None)}
        return [row for row in rows if row.number not in there]

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Send the values of *rows*; the row of the start has none."""
        has_ids = self._knowledge == "has ids"
        sent = [
            {
                "run": self.run.identity,
                "line": row.line,
                "number": row.number,
                "step": row.step,
                "values": {item.name: item.value for item in row.items if item.kind == "measure"},
                "id": f"{self.run.identity}-{row.number}" if has_ids else None,
            }
            for row in rows
            if row.number >= 0
        ]
        if sent:
            self._call({"rows": sent})
            self.place = len(sent)
        return []

    def close(self, end: Ending | None) -> None:
        """Send the end."""
        if end is not None:
            self._call({"ending": end.reason})

    def _call(self, content: Any) -> Any:
        data = None if content is None else json.dumps(content).encode()
        with urllib.request.urlopen(f"{self.into}{self.run.identity}", data, timeout=5) as answer:
            return json.loads(answer.read())


def write_steps(directory: Path, losses: Sequence[float | None], *, seconds: float = 1.0, ending: str | None) -> Path:
    """Write a run with a step for each of *losses*, *seconds* apart; without *ending* it stays torn."""
    lines: list[dict[str, Any]] = [
        {
            "kind": "run_start",
            "schema": "toy/v1",
            "t": 0.0,
            "started_at": "2026-05-31T09:30:00Z",
            "run_id": directory.name,
            "config": {"lr": 0.1},
        }
    ]
    for at, loss in enumerate(losses):
        lines.append({"kind": "step", "t": (at + 1) * seconds, "step": at + 1, "loss": loss})
    if ending is not None:
        lines.append({"kind": "run_end", "t": (len(losses) + 1) * seconds, "reason": ending})
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "events.jsonl").write_text(text, encoding="utf-8")
    return directory
