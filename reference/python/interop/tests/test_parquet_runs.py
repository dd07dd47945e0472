"""Parquet files of Neptune's exporter and of W&B's cloud, written by pyarrow, are imported whole."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from conversions import SAMPLES, imported, losses, records, scalars
from toyspec import check, history
from toyspec.convert.finding import importer
from toyspec.convert.intake import Intake
from toyspec.convert.reports import Ledger
from toyspec.core.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow", reason="what reads Parquet is not installed")

NEPTUNE = SAMPLES / "neptune"


def test_every_row_of_a_neptune_export_has_a_place(tmp_path: Path) -> None:
    """Two projects are two groups; all parts of a run are one run; what is not kept as it was is counted."""
    report = imported(NEPTUNE / "data", tmp_path / "runs")
    assert ["demo-DEMO-1", "other-OTHER-1"] == [run.run_id for run in report.runs]
    first, second = report.runs
    assert {"step-fraction": 1, "file-missing": 1} == losses(first)
    assert (0, 20) == (first.dropped, first.items)
    start, *events, end = records(first.target)
    assert ("ws/demo", "first try", ["a", "b"]) == (start["group"], start["name"], start["tags"])
    assert "2026-02-01T11:59:59Z" == start["started_at"]
    settings = {"parameters/lr": 0.1, "parameters/layers": 2, "parameters/amp": True, "sys/failed": False}
    assert settings == start["config"]
    assert ("completed", "errored") == (end["reason"], records(second.target)[-1]["reason"])
    values = history(first.target, ["train/loss", "val/acc"])
    losses_of = [each for each in values["train/loss"] if each is not None]
    assert [2.5, 2.25, 2.0] == [each for each in losses_of if math.isfinite(float(each))]
    assert [(1, 0.25), (3, 0.75)] == [(step, value) for name, step, value in scalars(first.target) if name == "val/acc"]
    assert {"train/half": 1.0, "train/half/step": 1.5} in [event.get("values") for event in events]
    assert {"train/ok": 1.0} in [event.get("values") for event in events]
    assert [{"train/loss": "nan"}] == [event["nonfinite"] for event in events if "nonfinite" in event]
    assert [{"out": "epoch 1"}] == [event["texts"] for event in events if "texts" in event]
    assert [([0.0, 0.5, 1.0], [3.0, 4.0])] == [(e["edges"], e["counts"]) for e in events if e["kind"] == "histogram"]
    missing, found = (event for event in events if event["kind"] == "reference")
    assert "demo/missing.png" == missing["uri"]
    assert hashlib.sha256((NEPTUNE / "files/demo/main.py").read_bytes()).hexdigest() == found["sha256"]
    assert [] == check(first.target).files[0].findings


def test_part_of_a_run_brings_the_whole_run(tmp_path: Path) -> None:
    """Whichever part is named, the parts beside it are read too, and no other run."""
    report = imported(NEPTUNE / "data/demo/DEMO-1_part_1.parquet", tmp_path / "runs")
    assert [20] == [run.items for run in report.runs]


def test_file_outside_of_the_export_is_not_read(tmp_path: Path) -> None:
    """A path in the table does not leave the directory of files."""
    shutil.copytree(NEPTUNE, tmp_path / "export")
    os.rename(tmp_path / "export/files/demo/main.py", tmp_path / "export/main.py")
    (tmp_path / "export/files/demo/main.py").symlink_to(tmp_path / "export/main.py")
    report = imported(tmp_path / "export/data", tmp_path / "runs")
    assert 2 == losses(report.runs[0])["file-missing"]


def test_damaged_table_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Pyarrow ends its process for some damage, so another process reads a file first."""
    file = next(iter(sorted(NEPTUNE.rglob("*.parquet"))))
    data = bytearray(file.read_bytes())
    data[4:200] = bytes(196)
    (tmp_path / "0000.parquet").write_bytes(data)
    with pytest.raises(SourceError, match=r"0000\.parquet"):
        list(next(iter(importer("neptune").find_runs(str(tmp_path)))).records(Intake(Ledger())))
    assert [] == list(importer("neptune").find_runs(str(tmp_path / "none")))
