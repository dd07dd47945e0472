"""Databases and folders of other programs that lack a part, or have it elsewhere: what is read, counted and said."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conversions import SAMPLES, imported
from toyspec.convert import mlflow_store, trackio_store
from toyspec.convert.importing import import_runs
from toyspec.core.errors import SourceError

NOTHING = {
    "tensorboard": "no event files (*tfevents*) in the directory or below",
    "wandb": "no run files (*.wandb) in the directory or below",
    "mlflow": "no run of MLflow: neither a database with runs nor a directory `mlruns`",
    "trackio": "no database of Trackio and no fragments of its JSON Lines mode",
    "dvclive": "no directory with metrics.json and plots/metrics",
    "kaun": "no run of kaun/v1",
    "metrics": "no run of metrics/v1",
    "nanogpt": "there is not a log of the dialect nanogpt",
}


@pytest.mark.parametrize("name", NOTHING)
def test_folder_without_a_run_says_what_is_expected(name: str, tmp_path: Path) -> None:
    """The message names what the format has, and not what is there."""
    (tmp_path / "notes.txt").write_text("hello")
    report = import_runs([tmp_path], tmp_path / "out", format=name)
    assert [(str(tmp_path), NOTHING[name])] == [(error.path, error.message) for error in report.errors]


def database(path: Path, *statements: str) -> Path:
    """Make the database *path*."""
    with closing(sqlite3.connect(path)) as made, made:
        for statement in statements:
            made.execute(statement)
    return path


def copied(name: str, folder: Path, *statements: str) -> Path:
    """Return the folder of a copy of the sample *name*, whose database is changed by *statements*."""
    shutil.copytree(SAMPLES / name, folder)
    (path,) = folder.glob("*.db")
    database(path, *statements)
    return folder


TRACKIO: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "metrics": ("ALTER TABLE metrics RENAME COLUMN timestamp TO at", [("database", "no such column: timestamp")]),
    "system metrics": (
        "ALTER TABLE system_metrics RENAME COLUMN metrics TO x", [("database", "no such column: metrics")]
    ),
    "config": ("UPDATE configs SET config = '{'", [("config", "{")]),
    "a row": ("UPDATE metrics SET metrics = '[1]' WHERE id = (SELECT min(id) FROM metrics)", [("step 0", "[1]")]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRACKIO)
def test_part_of_trackio_that_cannot_be_read_is_counted(name: str, tmp_path: Path) -> None:
    """The rest of the run arrives, and the report has what the database says."""
    statement, expected = TRACKIO[name]
    report = imported(copied("trackio", tmp_path / "s", statement), tmp_path / "out", "trackio", max_examples=3)
    damaged = [loss for run in report.runs for loss in run.losses if loss.cause == "damaged"]
    assert expected == [(each.place, each.value) for loss in damaged for each in loss.examples]
    assert any(run.carried for run in report.runs)


def test_database_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    """Its message comes after the runs of those that can."""
    for name, broken, module in (
        ("trackio", "ALTER TABLE configs RENAME COLUMN run_id TO x", trackio_store),
        ("mlflow", "ALTER TABLE runs RENAME COLUMN lifecycle_stage TO x", mlflow_store),
    ):
        copied(name, tmp_path / name / "a", broken)
        shutil.copytree(SAMPLES / name, tmp_path / name / "b")
        runs = module.find_runs(str(tmp_path / name))
        assert next(runs).name
        with pytest.raises(SourceError, match="the database cannot be read: no such column") as caught:
            list(runs)
        assert str(tmp_path / name / "a") in str(caught.value)
