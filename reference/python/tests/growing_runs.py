"""Streams that grow, and what a catalog has of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from toyspec import Catalog
from toyspec.catalog.tables import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run","config":{"lr":0.1}}'


def step(number: int, **more: Any) -> bytes:
    """Return a step event."""
    return json.dumps({"kind": "step", "t": number + 0.5, "step": number, "loss": 3.0 / (1 + number), **more}).encode()


def entry(number: int, **more: Any) -> bytes:
    """Return an entry of a metrics log."""
    numbers = {"loss": 1.0 / (1 + number), "grad_norm": 1.0, "throughput_samples_per_sec": 8.0}
    return json.dumps({"step": number, **numbers, "wall_time_ms": 10 * number, **more}).encode()


def joined(found: Iterable[bytes]) -> bytes:
    """Return the lines *found*."""
    return b"".join(line + b"\n" for line in found)


def lines_of(first: int, last: int) -> bytes:
    """Return the steps of a stream from *first* to before *last*, with its start."""
    start = [START] if first == 0 else []
    return joined([*start, *map(step, range(first, last))])


def grow(stream: Path, data: bytes) -> None:
    """Append *data* to a stream."""
    with open(stream, "ab") as file:
        file.write(data)


def rows(catalog: Path) -> list[dict[str, Any]]:
    """Return the rows of a catalog, without names that no run has any more."""
    answer = Catalog(catalog).query("select * from runs order by stream")
    found = [zip(answer.columns, row, strict=True) for row in answer.rows]
    return [{name: value for name, value in row if name in COLUMNS or value is not None} for row in found]
