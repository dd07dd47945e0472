"""The viewer's workers: what becomes of streams whose worker is killed."""

from __future__ import annotations

import os
import queue
import sys
from typing import TYPE_CHECKING

import pytest

from toyspec.reading.log_detection import DialectChoice
from toyspec.view import scanning
from toyspec.view.identities import identity_at
from toyspec.view.scanning import Scanned, ScanWork, ScanWorkers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toyspec.view.curve_store import CurveStore

LINES = (
    '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n'
    '{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
    '{"kind":"run_end","t":2.0,"reason":"completed"}\n'
)


def killed(work: ScanWork, store: CurveStore, dialect: DialectChoice, threads: int = 1) -> Scanned:
    """End the process, as the system does where memory is short."""
    os._exit(9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test changes what is forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="open defect: from Python 3.12 on, the killed worker is not noticed"
)
def test_killed_worker_hides_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is killed takes its batch with it; each stream of it is read again, in a process of its own."""
    works = []
    for name in ("a", "b", "c"):
        path = tmp_path / name / "events.jsonl"
        path.parent.mkdir()
        path.write_text(LINES)
        works.append(ScanWork(str(path), name, identity_at(str(path))))
    monkeypatch.setattr(scanning, "_ALONE_BYTES", 0)
    monkeypatch.setattr(scanning, "cores", lambda: 2)
    monkeypatch.setattr(scanning, "start_method", lambda: "fork")
    # Only the processes that are forked have it: those that begin as new programs read the streams.
    monkeypatch.setattr(scanning, "scan_stream", killed)
    taken: queue.SimpleQueue[Scanned] = queue.SimpleQueue()

    def take(results: Sequence[Scanned]) -> None:
        for each in results:
            taken.put(each)

    workers = ScanWorkers(str(tmp_path / "cache"), DialectChoice())
    try:
        workers.scan(works, take)
        rows = [taken.get(timeout=120).row for _ in works]
    finally:
        workers.close()
    found = [(row["id"], row["state"], row["last_step"]) for row in rows if row is not None]
    assert [("a", "complete", 1), ("b", "complete", 1), ("c", "complete", 1)] == sorted(found)


def test_stream_that_ends_its_worker_has_a_row(tmp_path: Path) -> None:
    """The row of a stream that ended every worker says why it was not read."""
    path = tmp_path / "events.jsonl"
    path.write_text(LINES)
    work = ScanWork(str(path), "a", identity_at(str(path)))
    lost = scanning._lost(work, "its worker process was ended by SIGKILL")
    assert lost.row is not None
    assert (str(path), "its worker process was ended by SIGKILL") == (lost.path, lost.row["message"])
