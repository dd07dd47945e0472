"""Runs of the trainer for tests: short ones, in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from toyspec.core.command_line.main import main

# As `toyspec train` does it, where NumPy was not imported before.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

SHORT = ("--seed", "7", "--clock", "fixed")


def train(*options: str | Path) -> int:
    """Run ``toyspec train`` on a small model with the fixed clock, and return its exit code."""
    return main(["train", *SHORT, *map(str, options)])


def events(directory: Path) -> list[dict[str, Any]]:
    """Return the events of the run in *directory*."""
    return [json.loads(line) for line in (directory / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def kinds(directory: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind."""
    return [event for event in events(directory) if event["kind"] == kind]


def losses(directory: Path) -> dict[int, float]:
    """Return the loss of each step, that of its last attempt."""
    return {event["step"]: event["loss"] for event in kinds(directory, "step")}
