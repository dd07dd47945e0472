from __future__ import annotations

import json
import tempfile
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from toyspec import list_runs, open_run
from toyspec.core.engine import _loaded
from toyspec.core.errors import StreamMissingError
from toyspec.core.runs.summary import summarize_ends, summarize_run
from toyspec.core.runs.views import views_of
from toyspec.view.scans import ScannedRun


def stream(*records: Any) -> bytes:
    """Return a stream of *records*."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def step(number: float, **members: Any) -> dict[str, Any]:
    """Return a step event."""
    return {"kind": "step", "t": number / 10, "step": number, **members}


START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}


def test_views_of_a_toy_run() -> None:
    """Steps of other phases and those that a later attempt supersedes take no part."""
    views = views_of(
        stream(
            START,
            step(1, loss=3.0),
            step(2, loss=2.5),
            {"kind": "run_resume", "t": 0.3, "from_step": 1},
            step(2.0, loss=None),
            step(3),
            step(1, phase="decode", loss=9.0),
            {"kind": "future", "t": 99.0},
            {"kind": "run_end", "t": 1.5, "reason": "completed"},
        )
    )
    assert ("toy/v1", "complete") == (views.profile, views.state)
    assert {
        "run_id": "a",
        "phase": "train",
        "steps": 3,
        "last_step": 3,
        "loss_curve": [3.0, None],
        "final_loss": None,
        "duration_seconds": 1.5,
        "reason": "completed",
    } == views.members


def test_what_has_no_value_is_absent() -> None:
    """An empty stream has the phase, and nothing that would have to be made up."""
    assert {"phase": "train", "steps": 0, "loss_curve": []} == views_of(b"").members
    assert {} == views_of(b'{"a":1}\n').members


def test_invalid_members_take_no_part() -> None:
    """An invalid loss leaves its step; an invalid step or t leaves nothing of it; the run's own phase counts."""
    members = views_of(
        stream(
            {**START, "phase": "eval"},
            step(1, loss="x"),
            step(2, phase="eval", loss=1.0),
            step(3, phase="nothing", loss=0.5),
            step(-1, loss=7.0),
            {"kind": "step", "t": "x", "step": 5, "loss": 8.0},
            {"kind": "run_end", "t": 2.0, "reason": "completed", "final_loss": "x"},
        )
    ).members
    assert (3, 3, [1.0, 0.5], 0.5) == tuple(
        members[name] for name in ("steps", "last_step", "loss_curve", "final_loss")
    )


def test_views_of_a_metrics_log() -> None:
    """Losses are binary32; the mean is that of the finite ones."""
    entry = {"grad_norm": None, "throughput_samples_per_sec": 1.0}
    losses = [0.1, None, 0.2]
    entries = [{"step": i, "wall_time_ms": 500.0 * i, "loss": loss, **entry} for i, loss in enumerate(losses)]
    members = views_of(stream(*entries, {"step": 1.0, "wall_time_ms": 1.0, "loss": 5.0, **entry})).members
    assert [0.10000000149011612, None, 0.20000000298023224] == members["loss_curve"]
    assert (3, 2, 1.0, 1) == tuple(members[name] for name in ("steps", "last_step", "duration_seconds", "non_finite"))
    assert members["loss_min"] < members["loss_mean"] < members["loss_max"] == members["final_loss"]


@pytest.mark.parametrize(("manifest", "expected"), [(b'{"run_id":"named"}', "named"), (b'{"run_id":7}', "folder")])
def test_views_of_a_kaun_run(manifest: bytes, expected: str, tmp_path: Path) -> None:
    """The manifest names the run, else its directory does; the name of a tag tells what is best of it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "run.json").write_bytes(manifest)
    values = [(1, 3.0), (2.0, 2.0), (2, 4.0), (3, None)]
    scalars = [{"type": "scalar", "step": number, "tag": "loss", "value": value} for number, value in values]
    (folder / "events.jsonl").write_bytes(stream(*scalars, {"type": "scalar", "step": -1, "tag": "x", "value": 1.0}))
    views = views_of(folder)
    best, latest = {"step": 2, "value": 2.0}, {"step": 3, "value": None}
    assert {"run_id": expected, "tags": {"loss": {"count": 4, "latest": latest, "best": best}}} == views.members
    assert "run_id" not in views_of(folder / "events.jsonl").members


def test_run_that_is_not_there(tmp_path: Path) -> None:
    """A missing run raises; it has no views that are empty."""
    with pytest.raises(StreamMissingError):
        views_of(tmp_path / "no")


@pytest.mark.parametrize("phase", ["train", "eval", None])
def test_every_answer_about_a_run_is_its_view(phase: str | None, tmp_path: Path) -> None:
    """open_run, show and ls give the final loss and the last step that the views have."""
    start = START if phase is None else {**START, "phase": phase}
    records = [step(1, loss=3.0), step(2, loss=2.5), step(1, phase="decode"), step(9, phase="eval", loss=1.0)]
    folder = tmp_path / "a"
    folder.mkdir()
    path = folder / "events.jsonl"
    for end in ({}, {"final_loss": None}, {"final_loss": "x"}, {"final_loss": 0.25}):
        path.write_bytes(stream(start, *records, {"kind": "run_end", "t": 5, "reason": "completed", **end}))
        views = views_of(folder).members
        whole, ends, run = summarize_run(str(path)), summarize_ends(str(path)), open_run(folder)
        for summary in (whole, ends):
            found = (summary.facts.final_loss, summary.last_step, summary.facts.seconds)
            assert tuple(views[name] for name in ("final_loss", "last_step", "duration_seconds")) == found
        assert views["final_loss"] == run.facts.final_loss


def test_phase_that_is_named_late_counts_from_the_start(tmp_path: Path) -> None:
    """A run_start after its first steps still decides their phase."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(stream(step(1, loss=3.0), step(2, phase="train", loss=2.0), {**START, "phase": "eval"}))
    assert [3.0] == views_of(path).members["loss_curve"]
    assert (3.0, 1) == (summarize_run(str(path)).facts.final_loss, summarize_run(str(path)).last_step)


_LOSSES = strategies.lists(
    strategies.sampled_from([2.5, 1.0, -3.0, None, -1e300, 1e39, -3.5e38, "x", True]), max_size=12
)


@pytest.mark.parametrize("engine", ["python", "native"])
@given(losses=_LOSSES, times=strategies.integers(1, 300))
def test_entry_with_an_invalid_loss_counts_in_no_view(engine: str, losses: list[Any], times: int) -> None:
    """Lists, summaries and curves give the steps, losses and times that a summarizer gives."""
    if engine == "native" and _loaded()[0] is None:
        pytest.skip("the compiled engine is not installed: make engine")
    members = {"grad_norm": 1.0, "throughput_samples_per_sec": 8.0}
    entries = [
        {"step": at, "wall_time_ms": at * 500.0, "loss": loss, **members} for at, loss in enumerate(losses * times)
    ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOYSPEC_ENGINE", engine)
        path = Path(folder, "metrics.jsonl")
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
        views = views_of(folder).members
        listed, summary = next(iter(list_runs(folder))), summarize_run(folder)
        scanned = ScannedRun(str(path))
        scanned.read_whole()
        scanned.close()
        curve, drawn = summary.loss, scanned.scan.latest.get("loss")
    known = [loss for loss in views["loss_curve"] if loss is not None]
    ends = (min(known, default=None), max(known, default=None))
    assert ends == tuple(end and end[1] for end in ((curve.lowest, curve.highest) if curve else (None, None)))
    columns = {} if drawn is None else drawn.buckets().columns
    low, high = ([each for each in columns.get(name, ()) if isfinite(each)] for name in ("min", "max"))
    assert ends == (min(low, default=None), max(high, default=None))
    assert views["steps"] == (0 if curve is None else curve.count)
    for found in (listed, summary, scanned.scan.summary):
        said = (found.facts.last_step, found.facts.final_loss, found.facts.seconds if known or views["steps"] else None)
        assert (views.get("last_step"), views.get("final_loss"), views.get("duration_seconds")) == said
