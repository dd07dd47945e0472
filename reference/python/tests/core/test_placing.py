"""Where values are, and what they are called: the same in every view of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec import history
from toyspec.catalog.reading_runs import row_of
from toyspec.core.reading.attempts import Attempts, Placing
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.reading.reader import read
from toyspec.core.runs.summary import summarize_run
from toyspec.view.scans import Scan, ScannedRun

Places = set[tuple[str, float, float]]

_START = {"kind": "run_start", "schema": "toy/v1", "t": 0, "run_id": "a"}
_PHASES = [None, "train", "eval", "decode"]
_STEPS = st.integers(0, 9)


def _record(kind: str, **members: Any) -> dict[str, Any]:
    return {"kind": kind, "t": 1.0} | {key: value for key, value in members.items() if value is not None}


_VALUE = st.integers(1, 10**6).map(float)
_RECORDS = st.one_of(
    st.builds(_record, st.just("step"), step=_STEPS, loss=_VALUE, phase=st.sampled_from(_PHASES)),
    st.builds(
        _record, st.just("scalars"), step=st.none() | _STEPS, values=st.dictionaries(st.sampled_from("xyz"), _VALUE)
    ),
    st.builds(_record, st.just("eval"), step=_STEPS, name=st.just("held-out"), loss=_VALUE),
    st.builds(_record, st.just("system"), step=st.none() | _STEPS, gpu=_VALUE),
    st.builds(_record, st.just("run_resume"), from_step=_STEPS),
)


def _written(directory: Path, records: list[dict[str, Any]]) -> str:
    path = directory / "events.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


def _in_history(path: str) -> Places:
    table = history(path)
    steps: Any = table["step"]
    columns: dict[str, Any] = {name: cells for name, cells in table.items() if name != "step"}
    return {
        (name, step, value)
        for name, cells in columns.items()
        for step, value in zip(steps, cells, strict=True)
        if value is not None
    }


def _in_viewer(path: str) -> Places:
    scan: Scan | None = None
    while scan is None or scan.needs_second:
        scan = Scan(path, attempts=None if scan is None else scan.summary.attempts)
        with read(path, mode="salvage") as reading:
            reading.give_blocks(attempts=scan.summary.attempts)
            scan.take(reading)
    found = set()
    for name, curve in scan.latest.items():
        columns = curve.buckets().columns
        found |= {(name, *point) for point in zip(columns["step"], columns["last"], strict=True)}
    return found


@given(st.lists(_RECORDS, max_size=8), st.sampled_from(_PHASES), st.integers(0, 2))
def test_each_view_has_each_value_at_the_same_step_by_the_same_name(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], phase: str | None, late: int
) -> None:
    """Steps of another phase, values without a step, resumptions and a late start included."""
    start = _START | ({} if phase is None else {"phase": phase})
    path = _written(tmp_path_factory.mktemp("run"), [*records[:late], start, *records[late:]])
    expected = _in_history(path)
    assert expected == _in_viewer(path)
    series = summarize_run(path).series
    assert {name for name, _, _ in expected} == set(series)
    ends = {(name, *curve.last) for name, curve in series.items() if curve.last is not None}
    assert ends <= expected


_UNREADABLE = "{"


def _scanned_by_records(path: str) -> Scan:
    scan: Scan | None = None
    while scan is None or scan.needs_second:
        scan = Scan(path, attempts=None if scan is None else scan.summary.attempts)
        with read(path, mode="salvage", attempts="all") as reading:
            scan.take(reading)
    return scan


def _scanned(path: Path, parts: list[bytes]) -> Scan:
    """Return what the viewer has of a file that grows by *parts*."""
    path.touch()
    file = ScannedRun(str(path), DialectChoice())
    try:
        for part in parts:
            with path.open("ab") as stream:
                stream.write(part)
            file.read()
        return file.scan
    finally:
        file.close()


def _drawn(scan: Scan) -> str:
    def buckets(curves: Any) -> Any:
        columns = {name: curve.buckets().columns for name, curve in sorted(curves.items())}
        return {name: {key: list(map(float, columns[name][key])) for key in _COLUMNS} for name in columns}

    return repr([buckets(scan.latest), [buckets(each) for each in scan.abandoned], scan.resumes])


_COLUMNS = ("step", "time", "epoch", "last", "min", "max")


@pytest.mark.parametrize("engine", ["python", ""])
@given(lines=st.lists(_RECORDS | st.just(_UNREADABLE), max_size=12), phase=st.sampled_from(_PHASES))
def test_blocks_of_steps_draw_what_their_records_draw(
    tmp_path_factory: pytest.TempPathFactory, engine: str, lines: list[Any], phase: str | None
) -> None:
    """Places, times, epochs, resumptions and unreadable lines are the same, in whatever pieces the stream was read."""
    start = _START | ({} if phase is None else {"phase": phase})
    records = [
        line if line is _UNREADABLE else line | {"t": float(at)} for at, line in enumerate([start, *lines, *lines[:2]])
    ]
    directory = tmp_path_factory.mktemp("run")
    written = [f"{each if each is _UNREADABLE else json.dumps(each)}\n".encode() for each in records]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOYSPEC_ENGINE", engine)
        whole, grown = (
            _scanned(directory / name, parts) for name, parts in (("w", [b"".join(written)]), ("g", written))
        )
        assert _drawn(_scanned_by_records(str(directory / "w"))) == _drawn(whole) == _drawn(grown)
        assert whole.gaps == grown.gaps
        assert [at for at, each in enumerate(records, 1) if each is _UNREADABLE] == [gap["line"] for gap in whole.gaps]


@pytest.mark.parametrize("attempts", ["latest", "all"])
def test_start_that_comes_late_decides_on_the_phase(tmp_path: Path, attempts: Any) -> None:
    """Steps before the run_start are of its phase too, and those of others are not."""
    records = [
        _record("step", step=1, loss=3.0, phase="decode"),
        _record("step", step=1, loss=5.0, phase="train"),
        _START | {"phase": "decode"},
        _record("step", step=2, loss=2.0),
    ]
    table = history(_written(tmp_path, records), attempts=attempts)
    assert ([1, 2], [3.0, 2.0], [5.0, None]) == (table["step"], table["loss"], table["train/loss"])


@pytest.mark.parametrize("large", [1 << 63, 10**30])
def test_step_of_any_size_counts(tmp_path: Path, large: int) -> None:
    """A step that no database can hold is the last one where there is none, and has its values."""
    records = [_record("step", step=step, loss=loss) for step, loss in ((4, 2.0), (large, 1.0))]
    path = _written(tmp_path, [_START | {"config": {"max_steps": 5}}, *records])
    summary = summarize_run(path)
    assert (4, large, 1.0) == (summary.first_step, summary.last_step, summary.facts.final_loss)
    assert ((large, 1.0), 2) == (summary.series["loss"].last, summary.series["loss"].count)
    assert summary.facts.progress == 1.0
    row = row_of(summary, {})
    assert (4, None) == (row["first_step"], row["last_step"])


def test_repeated_step_has_a_row_for_each_value(tmp_path: Path) -> None:
    """A metric that goes back to a step, or repeats one, keeps all its values; what one call logged is in one row."""
    records = [_record("scalars", step=step, values={"x": value}) for step, value in ((1, 1.0), (2, 2.0), (2, 3.0))]
    table = history(_written(tmp_path, [_START, *records, _record("scalars", step=1, values={"x": 4.0, "y": 5.0})]))
    assert ([1, 1, 2, 2], [1.0, 4.0, 2.0, 3.0]) == (table["step"], table["x"])
    assert [None, 5.0, None, None] == table["y"]


@pytest.mark.parametrize("engine", ["python", ""])
def test_scalars_do_not_count_beside_steps_of_any_phase(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step of scalars is the run's last one only where nothing is a step, however many steps are read at once."""
    monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    decoded = [_record("step", step=step, logprob=-1.0, phase="decode") for step in range(1, 200)]
    path = _written(
        tmp_path, [_START, *decoded, _record("scalars", step=7, values={"x": 1.0}), _record("system", gpu=0.5)]
    )
    assert summarize_run(path).last_step is None
    assert ("system/gpu", 0, 0.5) in _in_history(path) & _in_viewer(path)


def test_rows_are_at_their_steps_else_at_the_last_one() -> None:
    """The first step is that of the first row, the last one the highest: a log may go back."""
    placing = Placing(Attempts())
    assert [0, 0] == list(placing.take_rows(None, 2))
    for steps, reached in (([5, 7], (5, 7)), ([3, 4], (5, 7)), ([9, 8], (5, 9))):
        assert steps == placing.take_rows(steps, 2)
        assert reached == (placing.first, placing.last)
    assert [9, 9, 9] == list(placing.take_rows(None, 3))
