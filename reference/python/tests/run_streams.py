"""The smallest stream of a run, put in place and looked at, and how its writer can fail."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from toyspec.reading.reader import read
from toyspec.writing.run_writer import RunWriter

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n'

EVERY_FAILURE = pytest.mark.parametrize(
    ("lasting", "effect", "on_error"),
    list(product(["once", "for-ever"], ["error", "short-write"], ["disable", "raise"])),
)
"""How a call can fail, and what the writer is set to do then."""


def with_stream(directory: Path, data: bytes) -> Path:
    """Put a stream into the directory of a run and return its path."""
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(data)
    return directory / "events.jsonl"


def kinds(run: RunWriter) -> list[str | None]:
    """Return the kinds of the records in the stream."""
    return [record.kind for record in read(run.events_path)]
