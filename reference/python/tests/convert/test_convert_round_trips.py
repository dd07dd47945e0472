"""Tests of every format that is written without another program: what is exported comes back."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import toyspec_within as toyspec
from conversions import SAMPLES, exported, importable_samples, imported, losses, records, scalars, write_run
from property_examples import examples
from sample_rows import SOURCES, sample_of
from toyspec import list_runs

names = st.sampled_from(["loss", "val/acc", "lr", "a b", "x.y"])
values = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=examples(25), deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 2**40), st.dictionaries(names, values, min_size=1)), min_size=1))
def test_numbers_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, dict[str, float | None]]]
) -> None:
    """Each number comes back with its step; binary32 is the only rounding, and the report counts it."""
    tmp_path = tmp_path_factory.mktemp("numbers")
    rows = [(step + index, row) for index, (step, row) in enumerate(rows)]
    events = [{"kind": "scalars", "t": float(at), "step": step, "values": row} for at, (step, row) in enumerate(rows)]
    made = exported("tensorboard", write_run(tmp_path / "a", {}, *events), tmp_path / "out")
    imported(tmp_path / "out", tmp_path / "runs")
    expected = []
    rounded = 0
    for step, row in rows:
        for metric, value in row.items():
            kept = None if value is None else _binary32(value)
            rounded += kept != value
            expected.append((metric, step, kept if kept is None or math.isfinite(kept) else None))
    found = _scalars(tmp_path)
    assert sorted(expected, key=repr) == sorted(found, key=repr)
    assert rounded == losses(made).get("binary32", 0)


def _scalars(tmp_path: Path) -> list[tuple[str, int | None, float | None]]:
    return scalars(tmp_path / "runs" / ("a" if (tmp_path / "runs" / "a").exists() else "out"))


def _binary32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def test_run_without_times_took_an_unknown_time(tmp_path: Path) -> None:
    """No time is shown for a run of which none is known: it did not take 0 s."""
    (tmp_path / "metrics.jsonl").write_text('{"step":1,"loss":2.5}\n{"step":2,"loss":2.25}\n')
    (run,) = imported(tmp_path / "metrics.jsonl", tmp_path / "runs").runs
    (listed,) = list_runs(tmp_path / "runs")
    assert listed.facts.seconds is None
    assert b"not known: every record is at 0 s" in toyspec("show", run.target).stdout


def test_nested_values_of_trackio(tmp_path: Path) -> None:
    """Nested numbers are metrics by their whole names, completions samples; an image without a file is reported."""
    row = (
        '{"v":1,"kind":"metric","run":"a","run_id":"a","step":4,"config":null,"log_id":"i","metrics":{"train":{"loss":0.5,'
        '"by":{"a":1}},"img":{"_type":"trackio.image","w":3},"in":{"i":{"_type":1}},'
        '"t":{"_type":"trackio.table","_value":[{"prompt":"p","completion":"c","r":1}]}}}\n'
    )
    (tmp_path / "inbox").mkdir()
    deep = '{"run":"a","log_id":"i","metrics":' + "[" * 100_000 + "\n"
    (tmp_path / "inbox" / "00000000.jsonl").write_text(row + deep)
    (run,) = imported(tmp_path / "inbox", tmp_path / "runs").runs
    assert [("train/by/a", 4, 1.0), ("train/loss", 4, 0.5)] == scalars(run.target)
    assert [{"r": 1.0}] == [each["rewards"] for each in records(run.target) if each["kind"] == "sample"]
    assert {"no-place": 2, "damaged": 1} == {
        cause: count for cause, count in losses(run).items() if cause != "time-unusable"
    }


@pytest.mark.parametrize("data", [b"\0" * 40, b"{\n", b"not a record\n"])
def test_fragment_of_trackio_without_a_record_is_reported(tmp_path: Path, data: bytes) -> None:
    """It is counted as damage of the run whose fragments are beside it."""
    row = (
        '{"v":1,"kind":"metric","project":"p","run":"a","run_id":"a","config":null,"log_id":"i","metrics":{"x":1.0},'
        '"step":1,"timestamp":"2026-01-01T00:00:01+00:00"}\n'
    )
    folder = tmp_path / "inbox" / "w"
    folder.mkdir(parents=True)
    (folder / "00000000.jsonl").write_bytes(data)
    (folder / "00000001.jsonl").write_text(row)
    (run,) = imported(tmp_path / "inbox", tmp_path / "runs").runs
    assert [("x", 1, 1.0)] == scalars(run.target)
    assert 1 == losses(run)["damaged"]


def test_resumed_run_of_trackio(tmp_path: Path) -> None:
    """A database and the fragments of each later process are runs of their own, and every row is there."""
    database = shutil.copy(next((SAMPLES / "trackio").rglob("*.db")), tmp_path / "p.db")
    with closing(sqlite3.connect(database)) as known:
        run_id, name = known.execute("SELECT run_id, run_name FROM metrics").fetchone()
    shared = {"v": 1, "kind": "metric", "project": "p", "run": name, "run_id": run_id, "config": None}
    for folder, step in (("z", 100), ("a", 200)):
        own = {"step": step, "metrics": {"more": step}, "timestamp": "2027-06-01T00:00:00+00:00", "log_id": str(step)}
        (tmp_path / "inbox" / folder).mkdir(parents=True)
        (tmp_path / "inbox" / folder / "00000000.jsonl").write_text(json.dumps({**shared, **own}) + "\n")
    first, *later = [each for each in imported(tmp_path, tmp_path / "runs").runs if each.source.endswith(run_id)]
    assert name == first.run_id
    assert [[("more", 200, 200.0)], [("more", 100, 100.0)]] == [scalars(run.target) for run in later]


_SAMPLES = [
    (sample.name, sample, path)
    for sample in importable_samples()
    for path in sorted(sample.rglob("*"))
    if path.is_file() and path.suffix != ".py"
]
_LOGS = [(name, sample_of(name), sample_of(name)) for name in SOURCES]


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_damaged_sources_are_accounted_for(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever is changed or cut in a file of any program: what can be read with all items counted, or an error."""
    tmp_path = tmp_path_factory.mktemp("damaged")
    name, source, path = data.draw(st.sampled_from(_SAMPLES) | st.sampled_from(_LOGS))
    whole = path.read_bytes()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(whole)))
        changed = data.draw(
            st.binary(max_size=2) | st.sampled_from([b"-", b"e99", b'"', b"\xff", b"\n", b"null", b"{"])
        )
        whole = whole[:at] + changed + whole[data.draw(st.sampled_from([at, at + 1, at + len(changed)])) :]
    made = tmp_path / source.name
    (shutil.copytree if source.is_dir() else shutil.copy)(source, made)
    made.joinpath(path.relative_to(source)).write_bytes(whole[: data.draw(st.sampled_from([len(whole), at]))])
    report = imported(made, tmp_path / "runs", name)
    assert report.runs or report.errors
    assert all(error.path.startswith(str(made)) for error in report.errors)
