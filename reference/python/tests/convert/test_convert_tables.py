"""Tests of CSV and the logs of other programs."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversions import exported, imported, losses, records, scalars, write_run
from toyspec.logs.dialects import dialects

DIALECTS = Path(__file__).parents[1] / "dialects"

EVENTS: tuple[dict[str, Any], ...] = (
    {"config": {"lr": 0.5, "net": {"name": "gpt"}}, "tags": ["x"]},
    {"kind": "step", "t": 0.5, "step": 1, "loss": 0.1, "extra": {"mfu": 0.25}},
    {"kind": "step", "t": 0.75, "step": 2, "loss": None},
    {"kind": "run_resume", "t": 1.0, "from_step": 1},
    {"kind": "step", "t": 1.5, "step": 2, "loss": 0.5},
    {"kind": "note", "t": 2.0, "text": "remark"},
    {"kind": "scalars", "t": 2.5, "values": {"x": None, "a,b": 1e300}},
    {"kind": "run_end", "t": 3.0, "reason": "interrupted"},
)


def test_csv_has_a_row_for_each_step(tmp_path: Path) -> None:
    """Values of one step that were logged apart are in one row; a repeated one, and one without a step, has its own."""
    logged: list[tuple[int | None, float, dict[str, float | None]]] = [
        (0, 0.5, {"loss": 2.5}),
        (1, 1.0, {"loss": 1.5}),
        (1, 1.25, {"val/acc": 0.5, "lr": None}),
    ]
    logged += [(0, 1.5, {"val/acc": 0.25}), (1, 2.0, {"loss": 1.25}), (None, 2.5, {"x": 1}), (None, 2.5, {"x": 2})]
    events: list[dict[str, Any]] = [
        {"kind": "scalars", "t": t, **({} if step is None else {"step": step}), "values": values}
        for step, t, values in logged
    ]
    made = exported("csv", write_run(tmp_path / "a", {}, *events), tmp_path / "out")
    text = (tmp_path / "out" / "a" / "metrics.csv").read_text()
    assert [
        "step,elapsed_s,loss,lr,val/acc,x",
        "0,0.5,2.5,,0.25,",
        "1,1.0,1.5,nan,0.5,",
        "1,2.0,1.25,,,",
        ",2.5,,,,1",
        ",2.5,,,,2",
    ] == text.splitlines()
    assert {"null": 1, "time-of-row": 3} == losses(made)
    assert (8, 5, 3, 0) == (made.items, made.carried, made.changed, made.dropped)
    (back,) = imported(tmp_path / "out", tmp_path / "runs").runs
    expected = {(name, step, value) for step, _, values in logged for name, value in values.items()}
    assert expected == set(scalars(back.target))


def test_csv_keeps_texts_in_a_table_of_their_own(tmp_path: Path) -> None:
    """A text is found again with its step, time and name, whatever is in it; a run without texts has no such table."""
    texts = {"said": 'a,"b"\n=1', "007": "007"}
    events = [
        {"kind": "scalars", "t": 1.5, "step": 3, "values": {"loss": 0.5}, "texts": texts},
        {"kind": "scalars", "t": 2.0, "values": {}, "texts": {"said": ""}},
    ]
    made = exported("csv", write_run(tmp_path / "a", {}, *events), tmp_path / "out")
    with open(tmp_path / "out/a/texts.csv", newline="") as file:
        assert [
            ["at_step", "elapsed_s", "name", "text"],
            *(["3", "1.5", name, text] for name, text in texts.items()),
            ["", "2.0", "said", ""],
        ] == list(csv.reader(file))
    assert ({}, 4, 0) == (losses(made), made.carried, made.dropped)
    assert ["a"] == [os.path.basename(run.target) for run in imported(tmp_path / "out", tmp_path / "runs").runs]
    exported("csv", write_run(tmp_path / "b", {}, {**events[0], "texts": {}}), tmp_path / "out")
    assert ["metrics.csv"] == os.listdir(tmp_path / "out/b")


def test_csv_holds_few_rows_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value whose row was written begins a new row of its step."""
    monkeypatch.setattr("toyspec.convert.destinations.csv_tables._OPEN_ROWS", 2)
    steps = [(0, "a"), (1, "a"), (2, "a"), (0, "b"), (2, "b")]
    events = [{"kind": "scalars", "t": 1.0, "step": step, "values": {name: 1.0}} for step, name in steps]
    exported("csv", write_run(tmp_path / "a", {}, *events), tmp_path / "out")
    rows = (tmp_path / "out" / "a" / "metrics.csv").read_text().splitlines()[1:]
    assert ["0,1.0,1.0,", "1,1.0,1.0,", "2,1.0,1.0,1.0", "0,1.0,,1.0"] == rows


def sample_of(name: str) -> Path:
    """Return the path of the sample of a dialect."""
    return DIALECTS / name / str(json.loads((DIALECTS / name / "sample.json").read_bytes())["file"])


def test_attempts_of_mllog_are_runs(tmp_path: Path) -> None:
    """A file that a relaunch has gone on with gives a run for each ``init_start``."""
    line = ':::MLLOG {"namespace":"","time_ms":%d,"event_type":"POINT_IN_TIME","key":"%s","value":%s,"metadata":{}}\n'
    log = [("init_start", "null"), ("loss", "1.5"), ("init_start", "null"), ("loss", "0.5"), ("cause", '"x"')]
    text = "".join(line % (1763632800000 + at, key, value) for at, (key, value) in enumerate(log))
    (tmp_path / "result_0.txt").write_text(text)
    first, second = imported(tmp_path / "result_0.txt", tmp_path / "runs").runs
    assert [("loss", None, 1.5)] == scalars(first.target)
    assert [("loss", None, 0.5)] == scalars(second.target)
    texts = [record["texts"] for record in records(second.target) if "texts" in record]
    assert "x" == texts[-1]["cause"]


@given(st.data())
def test_damaged_logs_are_accounted_for(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever is cut or changed in the log of any program, each item is accounted for and the result is valid."""
    tmp_path = tmp_path_factory.mktemp("log")
    name = data.draw(st.sampled_from([dialect.name for dialect in dialects()]))
    source = sample_of(name)
    whole = source.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = data.draw(st.sampled_from([b"", b"-", b"e99", b'"', b"\xff", b"\n", b"\0", b"null"]))
    keep = data.draw(st.sampled_from([at, at + 1, len(whole)]))
    file = tmp_path / source.name
    file.write_bytes(whole[:at] + changed + whole[keep:])
    if file.stat().st_size:
        imported(file, tmp_path / "runs", name)
