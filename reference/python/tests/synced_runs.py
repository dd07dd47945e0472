"""Runs that are kept in step with a place, and what the tests of it share."""

from __future__ import annotations

from pathlib import Path

from loopback_store import BUCKET
from toyspec.stores.run_sync import SyncReport, SyncSettings
from toyspec.stores.syncing import Syncing

TO = f"s3://{BUCKET}/runs"
LOG = "runs/a/events.jsonl"
FRAGMENT = b'{"kind":"step","t":9'


def put(run: Path, data: bytes, name: str = "events.jsonl") -> None:
    """Write a file of the run."""
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_bytes(data)


def sync(run: Path, to: str = TO, chosen: SyncSettings | None = None) -> SyncReport:
    """Bring the place in step once, as a new process would."""
    return Syncing(str(run.parent), to, chosen or SyncSettings()).once()


def outcome(report: SyncReport) -> str:
    """Return what became of the only run."""
    (found,) = report.runs
    return found.outcome
