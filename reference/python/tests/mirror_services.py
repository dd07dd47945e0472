"""A service of mirrors that fails on purpose, and says what it has kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from toyspec.convert.destinations.destination import Destination, Ending, Lost, RunHead
from toyspec.convert.mirrors.mirroring import Timing
from toyspec.convert.run_items import ItemRow

Behaviour = Literal["good", "refuses", "keeps and fails", "keeps half and fails", "loses all and fails"]
Knowledge = Literal["counts", "is asked", "has ids"]

FAST = Timing(poll=0.01, first_retry=0.001, longest_retry=0.01)


class RowService(Destination):
    """Keeps rows, and knows what it has in one of three ways.

    Its next calls are as *behaviours* say, and good afterwards. Several processes share what is in the file *path*.
    """

    def __init__(
        self, knowledge: Knowledge = "counts", behaviours: Iterable[Behaviour] = (), path: Path | None = None
    ) -> None:
        super().__init__()
        self.kept: list[dict[str, Any]] = []
        self._knowledge, self._behaviours, self._path = knowledge, iter(behaviours), path
        if path is not None and path.exists():
            data = path.read_bytes()
            # SIGKILL ends a write at a boundary of pages: a service keeps no part of a row.
            os.truncate(path, data.rfind(b"\n") + 1)
            self.kept = [json.loads(line) for line in path.read_bytes().splitlines()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, in the order in which they came."""
        return [each for each in self.kept if "number" in each]

    @property
    def endings(self) -> list[str]:
        """The reasons of the ends that were sent."""
        return [each["ending"] for each in self.kept if "ending" in each]

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Return the number after the last row where the service counts them."""
        self.run = run
        return 1 + max(self._numbers(), default=-1) if self._knowledge == "counts" else None

    def missing(self, rows: Sequence[ItemRow]) -> Sequence[ItemRow]:
        """Return the rows that the service does not have, where it is asked."""
        there = self._numbers() if self._knowledge == "is asked" else ()
        return [row for row in rows if row.number not in there]

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Keep the values of *rows*; the row of the start has none."""
        sent = [
            {
                "run": self.run.identity,
                "line": row.record.line,
                "number": row.number,
                "values": {item.name: item.value for item in row.items if item.kind == "measure"},
            }
            for row in rows
            if row.number >= 0
        ]
        if sent:
            self._send(sent)
            self.place = len(sent)
        return []

    def close(self, end: Ending | None) -> None:
        """Keep the end."""
        if end is not None:
            self._send([{"ending": end.reason}])

    def _numbers(self) -> set[int]:
        return {row["number"] for row in self.rows if row["run"] == self.run.identity}

    def _send(self, sent: list[dict[str, Any]]) -> None:
        behaviour = next(self._behaviours, "good")
        count = {"refuses": 0, "keeps half and fails": len(sent) // 2}.get(behaviour, len(sent))
        known = self._numbers() if self._knowledge == "has ids" else ()
        kept = [each for each in sent[:count] if each.get("number") not in known]
        self.kept += kept
        if behaviour == "loses all and fails":
            self.kept.clear()
        if self._path is not None:
            with self._path.open("ab", buffering=0) as file:
                file.write("".join(json.dumps(each) + "\n" for each in kept).encode())
        if behaviour != "good":
            raise ConnectionError(behaviour)


def write_steps(
    directory: Path, losses: Sequence[float | None], *, seconds: float = 1.0, ending: str | None = None
) -> Path:
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
