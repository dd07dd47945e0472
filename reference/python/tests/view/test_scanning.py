"""The viewer's workers: what becomes of streams whose worker is killed."""

from __future__ import annotations

import os
import queue
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.workers.processes import DIED
from toyspec.view import scanning
from toyspec.view.opened_files import identity_at
from toyspec.view.scanning import Scanned, ScanWork, ScanWorkers

if TYPE_CHECKING:
    from pathlib import Path

scan_batch = scanning._scan_batch
LINES = (
    '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n'
    '{"kind":"step","t":1.0,"step":1,"loss":2.5}\n'
    '{"kind":"run_end","t":2.0,"reason":"completed"}\n'
)


def scanned_by_killed(batch: list[ScanWork], **how: Any) -> list[Scanned]:
    """Scan *batch* as the viewer does, but end the process, as the system does where memory is short, for the run b."""
    if any(work.run == "b" for work in batch):
        os.kill(os.getpid(), signal.SIGKILL)
    return scan_batch(batch, **how)


@pytest.mark.contended
@pytest.mark.posix
def test_killed_worker_hides_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is killed takes no run with it: its runs are read again, and the one that kills has the reason."""
    works = []
    for name in ("a", "b", "c"):
        path = tmp_path / name / "events.jsonl"
        path.parent.mkdir()
        path.write_text(LINES)
        works.append(ScanWork(str(path), name, identity_at(str(path))))
    monkeypatch.setattr(scanning, "ALONE_BYTES", 0)
    monkeypatch.setattr(scanning, "cores", lambda: 2)
    monkeypatch.setattr(scanning, "_scan_batch", scanned_by_killed)
    taken: queue.SimpleQueue[Scanned] = queue.SimpleQueue()
    workers = ScanWorkers(str(tmp_path / "cache"), DialectChoice())
    try:
        ends = workers.scan(works, taken.put)
        rows = [taken.get(timeout=120).row for _ in works]
        assert all(end.result(timeout=120) is None for end in ends.values())
    finally:
        workers.close()
    found = {row["id"]: (row["state"], row["last_step"], row["message"]) for row in rows if row is not None}
    reason = DIED
    assert {"a": ("complete", 1, None), "b": ("damaged", None, reason), "c": ("complete", 1, None)} == found


def scanned_for_ever(batch: list[ScanWork], *, began: str, **how: Any) -> list[Scanned]:
    """Leave a mark, and scan until the process is ended."""
    with open(began, "w", encoding="utf-8"):
        pass
    time.sleep(3600)
    return []


@pytest.mark.contended
def test_close_waits_for_no_long_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing ends workers in the middle of their batch, and those that wait for its streams are woken."""
    path, began = tmp_path / "events.jsonl", tmp_path / "began"
    path.write_text(LINES)
    monkeypatch.setattr(scanning, "ALONE_BYTES", 0)
    monkeypatch.setattr(scanning, "cores", lambda: 2)
    monkeypatch.setattr(scanning, "_scan_batch", partial(scanned_for_ever, began=str(began)))
    workers = ScanWorkers(str(tmp_path / "cache"), DialectChoice())
    ends = workers.scan([ScanWork(str(path), "a", identity_at(str(path)))], lambda _: None)
    while not began.exists():
        time.sleep(0.01)
    workers.close()
    assert ends[str(path)].cancelled()


@pytest.mark.parametrize(("choice", "state"), [(DialectChoice(), "complete"), (DialectChoice(None), "damaged")])
def test_first_row_is_read_as_the_user_chose(tmp_path: Path, choice: DialectChoice, state: str) -> None:
    """The row that is there before a scan is that of the dialects that may be used."""
    log = tmp_path / "log.csv"
    log.write_bytes(b"step,loss\n1,0.5\n2,0.25\n")
    assert state == scanning.quick_row(ScanWork(str(log), "log.csv", identity_at(str(log))), choice)["state"]
