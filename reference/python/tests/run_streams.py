"""The smallest stream of a run, put in place and looked at, and how its writer can fail."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest

from toyspec.core.reading.reader import read
from toyspec.core.writing.run_writer import RunWriter
from toyspec.testing import FailingCalls

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n'


@dataclass(frozen=True)
class Failure:
    """How a call fails for lack of space, and what the writer is set to do then."""

    lasting: Literal["once", "for-ever"]
    effect: Literal["error", "short-write"]
    on_error: Literal["disable", "raise"]

    def at(self, number: int) -> FailingCalls:
        """Return calls of which number *number*, from 1, fails."""
        return FailingCalls(at=number, error=errno.ENOSPC, effect=self.effect, lasting=self.lasting)


_EVERY: list[tuple[Any, ...]] = list(product(["once", "for-ever"], ["error", "short-write"], ["disable", "raise"]))
EVERY_FAILURE = pytest.mark.parametrize("failure", [Failure(*way) for way in _EVERY], ids=map("-".join, _EVERY))
"""Gives each failure to a test."""


def stream(*records: dict[str, Any]) -> bytes:
    """Return a stream of *records*."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def with_stream(directory: Path, data: bytes) -> Path:
    """Put a stream into the directory of a run and return its path."""
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(data)
    return directory / "events.jsonl"


def kinds(run: RunWriter) -> list[str | None]:
    """Return the kinds of the records in the stream."""
    return [record.kind for record in read(run.events_path)]


def leave_by(error: BaseException | None, run: RunWriter) -> None:
    """Start the run, write a step and leave its block, by *error* where there is one."""
    with run:
        run.run_start()
        run.step(loss=0.5)
        if error is not None:
            raise error
