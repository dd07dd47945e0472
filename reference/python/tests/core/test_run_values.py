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
from toyspec.core.runs.summary import summarize_ends, summarize_run
from toyspec.view.scans import ScannedRun


def stream(*records: Any) -> bytes:
    """Return a stream of *records*."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def step(number: float, **members: Any) -> dict[str, Any]:
    """Return a step event."""
    return {"kind": "step", "t": number / 10, "step": number, **members}


START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}


@pytest.mark.parametrize("phase", ["train", "eval", None])
def test_every_answer_about_a_run_is_the_same(phase: str | None, tmp_path: Path) -> None:
    """open_run and lists have the final loss of the end, else of the last own step, and that step."""
    start = START if phase is None else {**START, "phase": phase}
    records = [step(1, loss=3.0), step(2, loss=2.5), step(1, phase="decode"), step(9, phase="eval", loss=1.0)]
    folder = tmp_path / "a"
    folder.mkdir()
    path = folder / "events.jsonl"
    last = (1.0, 9) if phase == "eval" else (2.5, 2)
    for end, final in (
        ({}, last[0]),
        ({"final_loss": None}, None),
        ({"final_loss": "x"}, last[0]),
        ({"final_loss": 0.25}, 0.25),
    ):
        path.write_bytes(stream(start, *records, {"kind": "run_end", "t": 5, "reason": "completed", **end}))
        whole, ends, run = summarize_run(str(path)), summarize_ends(str(path)), open_run(folder)
        for summary in (whole, ends):
            assert (final, last[1], 5) == (summary.facts.final_loss, summary.last_step, summary.facts.seconds)
        assert final == run.facts.final_loss


_LOSSES = strategies.lists(
    strategies.sampled_from([2.5, 1.0, -3.0, None, -1e300, 1e39, -3.5e38, "x", True]), max_size=12
)


@pytest.mark.parametrize("engine", ["python", "native"])
@given(losses=_LOSSES, times=strategies.integers(1, 300))
def test_entry_with_an_invalid_loss_does_not_count(engine: str, losses: list[Any], times: int) -> None:
    """Lists, summaries and curves have the steps, losses and times of those whose loss is null or binary32."""
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
        listed, summary = next(iter(list_runs(folder))), summarize_run(folder)
        scanned = ScannedRun(str(path))
        scanned.read_whole()
        scanned.close()
        curve, drawn = summary.loss, scanned.scan.latest.get("loss")
    valid = [
        (at, loss) for at, loss in enumerate(losses * times) if loss in (2.5, 1.0, -3.0, None) and loss is not True
    ]
    known = [loss for _, loss in valid if loss is not None]
    ends = (min(known, default=None), max(known, default=None))
    assert ends == tuple(end and end[1] for end in ((curve.lowest, curve.highest) if curve else (None, None)))
    columns = {} if drawn is None else drawn.buckets().columns
    low, high = ([each for each in columns.get(name, ()) if isfinite(each)] for name in ("min", "max"))
    assert ends == (min(low, default=None), max(high, default=None))
    assert len(valid) == (0 if curve is None else curve.count)
    last = (valid[-1][0], valid[-1][1], valid[-1][0] / 2) if valid else (None, None, None)
    for found in (listed, summary, scanned.scan.summary):
        assert last == (found.facts.last_step, found.facts.final_loss, found.facts.seconds if valid else None)
