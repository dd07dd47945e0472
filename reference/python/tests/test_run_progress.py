"""What may come next in a stream."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from toyspec.format.canonical import InvalidEventError
from toyspec.writing.run_progress import RunProgress

START = {"kind": "run_start", "t": 1.0, "run_id": "r", "phase": "eval"}


def after(*events: dict[str, Any]) -> RunProgress:
    """Return where a stream of *events* stands."""
    progress = RunProgress()
    for event in events:
        progress.take(event.get("kind"), event)
    return progress


def test_a_run_has_a_beginning_and_an_end() -> None:
    """A run starts once and first, and nothing follows its end."""
    progress = RunProgress()
    with pytest.raises(InvalidEventError, match="note before run_start"):
        progress.admit_kind("note")
    progress.admit_kind("run_start")
    assert (False, False) == (progress.is_running, progress.can_end)
    progress = after(START)
    assert (True, True, "r", "eval") == (progress.is_running, progress.can_end, progress.run_id, progress.phase)
    progress = after(START, {"kind": "run_end"})
    assert (False, False, True) == (progress.is_running, progress.can_end, progress.ended)
    for kind in ("note", "run_end", "own", None):
        with pytest.raises(InvalidEventError, match="after run_end"):
            progress.admit_kind(kind)


def test_fields_of_the_wrong_type_take_no_part() -> None:
    """A stream of another writer may hold anything; what is wrong changes nothing that is known."""
    progress = after(
        START,
        {"kind": "step", "t": 2, "step": 3, "phase": "train", "loss": 0.5},
        {"kind": "step", "t": "late", "step": 4.0, "phase": "train"},
        {"kind": "step", "t": True, "step": -1},
        {"kind": "step", "t": 1.5, "step": 7, "phase": 3},
        {"kind": "own", "t": 99.0, "step": 99},
        {"kind": None},
        {"kind": "run_start", "run_id": "second", "phase": "train"},
    )
    assert (8, 2.0, "r", "eval") == (progress.records, progress.time, progress.run_id, progress.phase)
    assert (3, 0.5) == (progress.last_train_step, progress.last_train_loss)
    assert (4, 8, 1) == tuple(progress.next_step(phase) for phase in ("train", "eval", "decode"))


def test_a_resumption_sets_the_train_step_and_forgets_the_others() -> None:
    """After run_resume the train step is from_step + 1, and other phases begin again; an invalid one forgets all."""
    steps = [{"kind": "step", "step": 5, "phase": phase} for phase in ("train", "eval")]
    progress = after(START, *steps, {"kind": "run_resume", "from_step": 2})
    assert (3, 1) == (progress.next_step("train"), progress.next_step("eval"))
    progress.admit_step(3, "train")
    with pytest.raises(InvalidEventError, match="step 2 after step 2"):
        progress.admit_step(2, "train")
    assert 1 == after(START, *steps, {"kind": "run_resume", "from_step": "2"}).next_step("train")
    assert UNSET is after(START).last_train_step
