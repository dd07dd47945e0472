"""Where a resumed run goes on."""

from __future__ import annotations

from typing import Any

import pytest

from toyspec.core.writing import run_progress as module
from toyspec.core.writing.run_progress import Resumption, RunProgress

STEPS: list[dict[str, Any]] = [{"kind": "run_start", "run_id": "r", "t": 0.0}, {"kind": "step", "step": 7, "t": 1.0}]


def resumed(*events: dict[str, Any]) -> RunProgress:
    """Return the progress of a stream with seven steps that was opened again and got *events*."""
    progress = RunProgress()
    for event in STEPS:
        progress.take(event["kind"], event)
    progress.await_resume()
    for event in events:
        progress.take(event["kind"], event)
    return progress


def test_first_step_that_goes_further_back_corrects_the_run_resume() -> None:
    """A later one does not, and none does once the attempt has a step."""
    resume: dict[str, Any] = {"kind": "run_resume", "from_step": 7}
    assert [None, 6] == [Resumption().from_step(first, resumed(resume)) for first in (8, 7)]
    assert Resumption().from_step(3, resumed(resume, {"kind": "step", "step": 8, "t": 2.0})) is None


def test_first_step_decides_once() -> None:
    """After a run_resume of the stream values decide too; after one of the caller, only a step does."""
    resumption, progress = Resumption(), resumed({"kind": "run_resume", "from_step": 7})
    assert not resumption.is_decided_by(8, "scalars", progress)
    assert resumption.is_decided_by(8, "step", progress)
    resumption.settle(is_decided=False)
    assert resumption.is_decided_by(8, "scalars", progress)
    assert not resumption.is_decided_by(None, "step", progress)
    resumption.settle(is_decided=True)
    assert not resumption.is_decided_by(8, "scalars", progress)


def test_superseded_records_are_returned_once() -> None:
    """A counted step moves to where the run goes on; a given one stays."""
    resumption = Resumption()
    for step, is_counted in ((4, False), (7, True), (6, False)):
        resumption.keep({"kind": "eval", "t": 1.0, "step": step}, is_counted=is_counted)
    assert ([{"kind": "eval", "step": 4}, {"kind": "eval", "step": 6}], []) == resumption.superseded(4)
    assert ([], []) == resumption.superseded(0)


def test_records_that_are_no_longer_known_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many early records the last are kept."""
    monkeypatch.setattr(module, "_MOST_EARLY", 2)
    resumption = Resumption()
    for step in (5, 6, 7):
        resumption.keep({"kind": "eval", "t": 1.0, "step": step}, is_counted=False)
    found, left_out = resumption.superseded(0)
    assert [6, 7] == [each["step"] for each in found]
    assert ["what was logged before the first step (1 records)"] == [each.name for each in left_out]
