"""TensorBoard: written by its own writer and imported; exported and read by its own reader."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversions import exported, imported, losses, records, scalars, write_run

pytest.importorskip("tensorboard")

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
rows = st.lists(st.tuples(names, st.floats(width=32), st.integers(0, 2**40)), min_size=1, max_size=30)


def accumulated(directory: Path) -> Any:
    """Return what TensorBoard reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


@given(rows)
def test_written_by_tensorboard(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float, int]]) -> None:
    """Every scalar of tensorboardX arrives, and the report counts those that are not finite."""
    from tensorboardX.event_file_writer import EventFileWriter
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary

    tmp_path = tmp_path_factory.mktemp("tb")
    writer = EventFileWriter(str(tmp_path / "a"))
    for index, (name, value, step) in enumerate(rows):
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        writer.add_event(Event(wall_time=1.8e9 + index, step=step, summary=summary))
    writer.close()
    (run,) = imported(tmp_path / "a", tmp_path / "runs").runs
    expected = [(name, step, value if math.isfinite(value) else None) for name, value, step in rows]
    assert expected == scalars(run.target)
    assert sum(not math.isfinite(value) for _, value, _ in rows) == losses(run).get("not-finite", 0)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b/c"]), st.none() | st.floats(-1e300, 1e300)), min_size=1, max_size=30)
)
def test_read_by_tensorboard(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float | None]]) -> None:
    """TensorBoard reads each value at its step and time; the report counts each that binary32 rounds."""
    tmp_path = tmp_path_factory.mktemp("tb")
    events = [
        {"kind": "scalars", "t": step / 4, "step": step, "values": {name: value}}
        for step, (name, value) in enumerate(rows)
    ]
    made = exported("tensorboard", write_run(tmp_path / "a", {"config": {"lr": 0.5}}, *events), tmp_path / "tb")
    found = accumulated(tmp_path / "tb" / "a")
    read = {(name, each.step): each for name in found.Tags()["scalars"] for each in found.Scalars(name)}
    assert len(rows) == len(read)
    rounded = 0
    for at, (name, value) in enumerate(rows):
        each = read[name, at]
        assert 1780219800.0 + at / 4 == each.wall_time
        if value is None:
            assert math.isnan(each.value)
            continue
        try:
            expected = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            expected = math.copysign(math.inf, value)
        assert expected == each.value
        rounded += expected != value
    assert rounded == losses(made).get("binary32", 0)
    assert "_hparams_/session_start_info" in found.Tags()["tensors"]


def test_restart_is_purged_by_tensorboard(tmp_path: Path) -> None:
    """What a resumption superseded, TensorBoard leaves out."""
    steps = [{"kind": "step", "t": float(step), "step": step, "loss": float(step)} for step in range(1, 6)]
    again = [{"kind": "run_resume", "t": 6.0, "from_step": 2}, {"kind": "step", "t": 7.0, "step": 3, "loss": 30.0}]
    exported("tensorboard", write_run(tmp_path / "a", {}, *steps, *again), tmp_path / "tb")
    found = accumulated(tmp_path / "tb" / "a").Scalars("loss")
    assert [(1, 1.0), (2, 2.0), (3, 30.0)] == [(each.step, each.value) for each in found]


def test_histograms_and_texts_come_back(tmp_path: Path) -> None:
    """What tensorboardX shows is in the run, but for pictures; TensorBoard reads what is exported."""
    import numpy as np
    from tensorboardX import SummaryWriter

    pixels = (np.arange(4 * 6 * 3).reshape(4, 6, 3) * 3).astype("uint8")
    with SummaryWriter(str(tmp_path / "a")) as writer:
        writer.add_image("img", pixels, 3, dataformats="HWC")
        writer.add_histogram("h", np.arange(100.0), 3)
        writer.add_text("t", "hello", 3)
        writer.add_scalar("x", 1.0, 3)
    (run,) = imported(tmp_path / "a", tmp_path / "runs").runs
    assert {"part-dropped": 1, "no-place": 1} == losses(run)
    (bins,) = (record for record in records(run.target) if record["kind"] == "histogram")
    assert 100.0 == sum(bins["counts"])
    assert (0.0, 99.0) == (bins["edges"][0], bins["edges"][-1])
    assert [{"t/text_summary": "hello"}] == [record["texts"] for record in records(run.target) if "texts" in record]
    made = exported("tensorboard", run.target, tmp_path / "tb")
    assert {"no-place"} == losses(made).keys(), "the name of the run, and the note of what was left out"
    read = accumulated(tmp_path / "tb" / run.run_id)
    assert {"h", "t/text_summary"} <= set(read.Tags()["tensors"])
    (again,) = imported(tmp_path / "tb", tmp_path / "again").runs
    (kept,) = (record for record in records(again.target) if record["kind"] == "histogram")
    assert [bins["edges"], bins["counts"]] == [kept["edges"], kept["counts"]]
