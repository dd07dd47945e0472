from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from logged_runs import findings
from toyspec.core.checker import check
from toyspec.core.metrics.log import MetricsLog
from toyspec.testing import ManualClock
from toyspec.tracker import MetricsTracker, TrainingLogger


def logger(path: Path, **options: Any) -> TrainingLogger:
    """Return a logger that writes a metrics log alone."""
    return TrainingLogger(**{"runs_root": None, "metrics_log": path, "print_every": 0, **options})


def entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of the log *path*."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_an_entry_has_the_time_since_the_start_and_the_global_throughput(tmp_path: Path) -> None:
    """wall_time_ms is the elapsed time, the throughput that of the tracker, and the rest is extra, sorted."""
    clock, path = ManualClock(), tmp_path / "logs/metrics.jsonl"
    tracker = MetricsTracker(1_000, sequence_length=128, world_size=8, clock=clock.monotonic)
    with logger(path, clock=clock, tracker=tracker) as made:
        tracker.update(local_batch_size=16)
        clock.advance(0.25)
        made.log_step(step=1, loss=1.5, grad_norm=0.5, lr=3e-4, ce_loss=1.25)
    expected = {"step": 1, "wall_time_ms": 250.0, "loss": 1.5, "grad_norm": 0.5, "throughput_samples_per_sec": 512.0}
    (entry,) = entries(path)
    assert {**expected, "extra": {"ce_loss": 1.25, "lr": 3e-4}} == entry
    assert ["ce_loss", "lr"] == list(entry["extra"])


@pytest.mark.parametrize("name", ["throughput_samples_per_sec", "samples_per_sec", "samples_per_second"])
def test_the_throughput_may_be_a_metric(name: str, tmp_path: Path) -> None:
    """A metric that is samples per second is the throughput, and not extra."""
    with logger(tmp_path / "metrics.jsonl") as made:
        made.log_step(step=1, **{name: 64})
    (entry,) = entries(tmp_path / "metrics.jsonl")
    assert (64.0, {}) == (entry["throughput_samples_per_sec"], entry["extra"])


def test_what_was_not_measured_is_null(tmp_path: Path) -> None:
    """Neither loss, gradient norm nor throughput is made up; what is not finite in binary32 is null too."""
    with logger(tmp_path / "metrics.jsonl") as made:
        made.log_step(step=1, entropy=float("nan"), huge=1e39)
    (entry,) = entries(tmp_path / "metrics.jsonl")
    assert (None, None, None, {"entropy": None, "huge": None}) == (
        entry["loss"],
        entry["grad_norm"],
        entry["throughput_samples_per_sec"],
        entry["extra"],
    )


def test_the_log_is_valid_and_can_be_read(tmp_path: Path) -> None:
    """The log of a run has no finding, and MetricsLog reads it."""
    with logger(tmp_path / "metrics.jsonl") as made:
        for step in range(1, 11):
            made.log_step(step=step, loss=1.0 / step, grad_norm=0.1, samples_per_sec=64.0)
    assert [] == findings(tmp_path)
    assert 10 == len(MetricsLog.open(tmp_path / "metrics.jsonl"))


def test_a_log_is_appended_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run goes on behind the first, and a fragment that a killed writer has left is moved away."""
    path = tmp_path / "metrics.jsonl"
    with logger(path) as made:
        made.log_step(step=1, loss=1.0)
    with path.open("ab") as file:
        file.write(b'{"step":2,"wall_')
    with logger(path) as made:
        made.log_step(step=2, loss=1.0)
    assert [1, 2] == [entry["step"] for entry in entries(path)]
    assert "were moved to" in capsys.readouterr().err


@pytest.mark.parametrize("finding", ["damaged", "directory", "no folder"])
def test_a_log_that_cannot_be_written_stops_nothing(
    finding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the log is damaged or cannot be made, that is reported once and the training goes on."""
    path = tmp_path / "metrics.jsonl"
    if finding == "damaged":
        path.write_bytes(b"nonsense\n")
    elif finding == "directory":
        path.mkdir()
    else:
        (tmp_path / "file").write_bytes(b"")
        path = tmp_path / "file/metrics.jsonl"
    with logger(path) as made:
        made.log_step(step=1, loss=1.0)
    assert 1 == capsys.readouterr().err.count("no more entries are written")
    assert finding != "damaged" or b"nonsense\n" == path.read_bytes()


def test_a_full_disk_stops_the_log_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When a write fails, the log ends there, said once, and the program goes on."""
    path = tmp_path / "metrics.jsonl"
    made = logger(path)
    made.log_step(step=1, loss=1.0)
    os.close(made._log._file._descriptor)  # type: ignore[union-attr]
    for step in (2, 3):
        made.log_step(step=step, loss=1.0)
    assert 1 == capsys.readouterr().err.count("no more entries are written")
    assert 1 == len(entries(path))


def test_every_process_has_a_log_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With master_only=False the other processes write beside the master."""
    for process in (0, 2):
        monkeypatch.setattr("toyspec.tracker.training_logger.process_index", lambda process=process: process)
        logger(tmp_path / "metrics.jsonl", master_only=False).finish()
    assert ["metrics-process2.jsonl", "metrics.jsonl"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_step_beyond_the_profile_is_left_out(tmp_path: Path) -> None:
    """A step that the profile cannot hold is not written, so that the log stays valid."""
    path = tmp_path / "metrics.jsonl"
    with logger(path) as made:
        made.log_step(step=2**32 - 1, loss=1.0)
        made.log_step(step=2**32, loss=1.0)
    assert [2**32 - 1] == [entry["step"] for entry in entries(path)]
    assert [] == [finding for report in check(path).files for finding in report.findings if finding.severity == "error"]
