"""Reads back what a logger has written, and checks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toyspec.core.checker import check


def events(directory: Path) -> list[dict[str, Any]]:
    """Return the records of the one bundle below *directory*."""
    (path,) = directory.rglob("events.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def kinds(directory: Path) -> list[str]:
    """Return the kinds of the records of the one bundle below *directory*."""
    return [event["kind"] for event in events(directory)]


def steps(directory: Path) -> list[int]:
    """Return the numbers of the step events of the one bundle below *directory*."""
    return [event["step"] for event in events(directory) if event["kind"] == "step"]


def findings(directory: Path) -> list[str]:
    """Return the state of every stream below *directory* that is not complete, and the rules of all findings."""
    found: list[str] = []
    for report in check(directory).files:
        found += [] if report.state == "complete" else [str(report.state)]
        found += [finding.rule for finding in report.findings]
    return found
