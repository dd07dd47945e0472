"""The tables of MLflow: every value has its time and step, and every fact its place."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from toyspec.convert import export_runs
from toyspec.convert.destinations import mlflow_runs
from toyspec.convert.intake import Intake
from toyspec.convert.mlflow_store import _LARGEST as LARGEST
from toyspec.convert.mlflow_store import _records
from toyspec.convert.reports import Ledger

WALL = 1_790_000_000_000
"""A time in milliseconds since the Unix epoch."""
TABLES = """
CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
CREATE TABLE runs (run_uuid TEXT, name TEXT, status TEXT, start_time INTEGER, end_time INTEGER, artifact_uri TEXT,
    experiment_id INTEGER);
CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
CREATE TABLE metrics (key TEXT, value, timestamp, step, is_nan, run_uuid TEXT);
INSERT INTO experiments VALUES (3, 'group');
"""


def _database(
    metrics: list[tuple[Any, ...]], *, run: tuple[Any, ...] = ("name", "FINISHED", WALL, WALL + 9500), **texts: Any
) -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    made.executescript(TABLES)
    made.execute("INSERT INTO runs VALUES ('r', ?, ?, ?, ?, NULL, 3)", run)
    made.execute("INSERT INTO runs VALUES ('other', 'x', 'FAILED', 1, 1, NULL, 3)")
    made.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, 'r')", metrics)
    made.execute("INSERT INTO metrics VALUES ('of another', 1.0, ?, 1, 0, 'other')", (WALL,))
    for table, pairs in texts.items():
        made.executemany(f"INSERT INTO {table} VALUES (?, ?, 'r')", list(pairs.items()))
    return made


def _events(database: sqlite3.Connection) -> tuple[list[dict[str, Any]], Ledger]:
    ledger = Ledger()
    intake = Intake(ledger, lambda start: {**start, "schema": "toy/v1", "run_id": "r"})
    with closing(database):
        lines = [*_records(database, "r", intake), *intake.finish(None)]
    assert ledger.is_settled
    return [json.loads(line) for line in b"".join(lines).splitlines()], ledger


def test_values_have_the_times_and_steps_of_the_table() -> None:
    """In the order of the times, in seconds since the whole second of the first; what is not finite is named."""
    rows: list[tuple[Any, ...]] = [
        ("late", 2.0, WALL + 2500, 3, 0),
        ("first", 1.0, WALL + 250, 1, 0),
        ("nan", 0.0, WALL + 500, 2, 1),
        ("inf", LARGEST, WALL + 750, 2, 0),
        ("low", -LARGEST, WALL + 751, 2, 0),
        ("large", LARGEST / 2, WALL + 752, 2, 0),
        ("before", 5.0, WALL + 753, -1, 0),
    ]
    found, ledger = _events(_database(rows))
    expected = [
        (0.25, 1, {"first": 1.0}),
        (0.5, 2, {"nan": None}),
        (0.75, 2, {"inf": None}),
        (0.751, 2, {"low": None}),
        (0.752, 2, {"large": LARGEST / 2}),
        (0.753, None, {"before": 5.0}),
        (2.5, 3, {"late": 2.0}),
    ]
    made = [(event["t"], event.get("step"), event["values"]) for event in found if event["kind"] == "scalars"]
    assert [(pytest.approx(t, abs=1e-6), step, values) for t, step, values in expected] == made
    assert {"clamped": 2, "step-unusable": 1} == {loss.cause: loss.count for loss in ledger.losses}


@pytest.mark.parametrize(
    ("status", "end", "expected"),
    [
        ("FINISHED", WALL + 9500, ("completed", 9.5, True)),
        ("FAILED", WALL + 9500, ("errored", 9.5, True)),
        ("KILLED", WALL + 100, ("aborted", 2.0, True)),
        ("FINISHED", None, ("completed", 2.0, False)),
        ("FINISHED", 10**18, ("completed", 2.0, False)),
        ("RUNNING", None, None),
        ("SCHEDULED", WALL + 9500, None),
    ],
)
def test_end_is_that_of_the_run(status: str, end: int | None, expected: tuple[str, float, bool] | None) -> None:
    """Never before the last value; a run that has not ended has no end, and one without a time has no clock."""
    found, _ = _events(_database([("a", 1.0, WALL + 2000, 1, 0)], run=("name", status, WALL, end)))
    ends = [event for event in found if event["kind"] == "run_end"]
    assert ([] if expected is None else [expected]) == [
        (event["reason"], event["t"], "ended_at" in event) for event in ends
    ]


def test_labels_and_settings_are_those_of_the_run() -> None:
    """Tags of MLflow itself have a place or are in a note, others become tags; settings are texts."""
    tags = {
        "mlflow.runName": "shown",
        "mlflow.note.content": "n",
        "mlflow.source.git.commit": "abc",
        "mlflow.user": "u",
    }
    found, ledger = _events(_database([], params={"lr": "0.1", "arch": "mlp"}, tags={**tags, "b": "1", "a": ""}))
    assert {
        "kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "name": "shown", "group": "group",
        "config": {"lr": "0.1", "arch": "mlp"},
        "started_at": "2026-09-21T14:13:20Z", "notes": "n", "git": {"sha": "abc"}, "tags": ["a", "b=1"],
    } == found[0]  # fmt: skip
    assert ("provenance", '{"mlflow.user":"u"}') == (found[1]["topic"], found[1]["text"])
    assert {"tag": 1} == {loss.cause: loss.count for loss in ledger.losses}


@pytest.mark.parametrize(
    ("start", "first", "began"),
    [(WALL, WALL + 9000, WALL), (WALL + 9000, WALL, WALL), (None, WALL, WALL), (-5, WALL, WALL)],
)
def test_run_begins_at_the_first_time_that_is_known(start: int | None, first: int, began: int) -> None:
    """The start that the run says, or its first value, whichever is before the other."""
    found, _ = _events(_database([("a", 1.0, first, 1, 0), ("b", 1.0, 0, 1, 0)], run=("name", "RUNNING", start, None)))
    assert "2026-09-21T14:13:20Z" == found[0]["started_at"]
    assert [(first - began) / 1000] == [event["t"] for event in found if event.get("values") == {"a": 1.0}]


@pytest.mark.parametrize(
    ("started", "last", "is_rounded"), [("10:00:00.25Z", 1.5, False), ("10:00:00.2501Z", 2.00025, True)]
)
def test_times_that_an_export_rounds_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str, last: float, *, is_rounded: bool
) -> None:
    """MLflow has whole milliseconds: the end of the run and each metric are counted, and a note names the start."""
    client = MagicMock()
    monkeypatch.setattr(mlflow_runs, "needed", lambda *_: MagicMock(MlflowClient=lambda _: client))
    lines = (
        {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "started_at": f"2026-11-22T{started}"},
        {"kind": "scalars", "t": last, "step": 1, "values": {"a": 1.5}},
        {"kind": "run_end", "t": last, "reason": "completed"},
    )
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (made,) = export_runs("mlflow", tmp_path / "r", tmp_path / "out").runs
    assert ([("milliseconds", 2)] if is_rounded else []) == [(loss.cause, loss.count) for loss in made.losses]
    assert is_rounded == ("MLflow has the start of the run in whole milliseconds" in made.notes)
    assert (2, made.items) == (
        client.set_terminated.call_count + client.log_batch.call_count,
        made.carried + made.changed,
    )
