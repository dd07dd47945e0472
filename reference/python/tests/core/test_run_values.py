from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from run_streams import stream
from toyspec import list_runs
from toyspec.core.runs.summary import summarize_ends, summarize_run


def step(number: float, **members: Any) -> dict[str, Any]:
    """Return a step event."""
    return {"kind": "step", "t": number / 10, "step": number, **members}


START = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "a"}


@pytest.mark.parametrize("phase", ["train", "eval", None])
def test_every_answer_about_a_run_is_the_same(phase: str | None, tmp_path: Path) -> None:
    """The whole log and its ends have the final loss of the end, else of the last own step, and that step."""
    start = START if phase is None else {**START, "phase": phase}
    records = [step(1, loss=3.0), step(2, loss=2.5), step(1, phase="decode"), step(9, phase="eval", loss=1.0)]
    path = tmp_path / "events.jsonl"
    last = (1.0, 9) if phase == "eval" else (2.5, 2)
    for end, final in (
        ({}, last[0]),
        ({"final_loss": None}, None),
        ({"final_loss": "x"}, last[0]),
        ({"final_loss": 0.25}, 0.25),
    ):
        path.write_bytes(stream(start, *records, {"kind": "run_end", "t": 5, "reason": "completed", **end}))
        for summary in (summarize_run(str(path)), summarize_ends(str(path))):
            assert (final, last[1], 5) == (summary.facts.final_loss, summary.last_step, summary.facts.seconds)


@pytest.mark.parametrize("engine", ["python", ""])
def test_entry_with_an_invalid_loss_does_not_count(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists and summaries have the steps, losses and times of entries whose loss is null or binary32."""
    monkeypatch.setenv("TOYSPEC_ENGINE", engine)
    members = {"grad_norm": 1.0, "throughput_samples_per_sec": 8.0}
    losses = [2.5, 1e39, -1e300, 1.0, None, -3.5e38, "x", True] * 200
    entries = [{"step": at, "wall_time_ms": at * 500.0, "loss": loss, **members} for at, loss in enumerate(losses)]
    (tmp_path / "metrics.jsonl").write_bytes(stream(*entries))
    summary = summarize_run(str(tmp_path))
    assert summary.loss is not None
    assert (600, (0, 2.5), (3, 1.0)) == (summary.loss.count, summary.loss.highest, summary.loss.lowest)
    for facts in (list_runs(tmp_path)[0].facts, summary.facts):
        assert (1596, None, 798.0) == (facts.last_step, facts.final_loss, facts.seconds)
