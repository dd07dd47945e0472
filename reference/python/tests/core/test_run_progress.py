"""What may come next in a stream."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from toyspec.core.format.canonical import InvalidEventError
from toyspec.core.writing.run_progress import LoggedNames, RunProgress

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


STEP = {"kind": "step", "step": 3, "loss": 0.5, "t": 1.0, "nonfinite": {}, "extra": {"acc": 1}}
VALUES = {"kind": "scalars", "step": 4, "values": {"x": 1}, "texts": {"y": "z"}}
BACK = {"kind": "run_resume", "from_step": 2}


@pytest.mark.parametrize(
    ("events", "repeated"),
    [
        ([], {}),
        # A step record names the metrics of the loop, by which alone it is repeated.
        ([STEP, VALUES], {"loss": 3, "acc": 3}),
        # Values at an earlier step are added to it.
        ([VALUES, {**VALUES, "step": 3, "values": {"x": 1, "late": 2}}], {"x": 4, "y": 4}),
        ([{**VALUES, "phase": "eval"}, {**VALUES, "step": -1}, {**VALUES, "step": True}, {"kind": "scalars"}], {}),
        # What a resumption goes back to is the last step of all that was logged after it.
        ([STEP, BACK], {"loss": 2, "acc": 2}),
        ([VALUES, BACK, {**VALUES, "step": 3, "values": {"new": 1}}], {"x": 2, "y": 3, "new": 3}),
    ],
)
def test_names_repeat_up_to_the_last_step_at_which_they_were_logged(
    events: list[dict[str, Any]], repeated: dict[str, int]
) -> None:
    """At any later step they go on, and any other name is added."""
    names = LoggedNames()
    for event in events:
        names.take(event["kind"], event, "train")
    every = ["loss", "acc", "x", "y", "late", "new", "t", "step", "kind", "nonfinite", "extra", "phase", "text"]
    for step in range(11):
        assert {name for name in every if repeated.get(name, -1) >= step} == {
            name for name in every if names.are_repeated([name], step)
        }
    assert bool(repeated) == names.are_repeated(["none", *repeated], 0)


def test_final_step_is_that_of_step_records_else_the_largest_of_values() -> None:
    """A run that goes on before its end, and adds values to it, ends where it was resumed at the earliest."""
    for events, final in (
        ([STEP, VALUES], 3),
        ([VALUES, BACK, {**VALUES, "step": 1}], 2),
        ([STEP, BACK, {**VALUES, "step": 3}], 3),
    ):
        assert final == after(*events).final_step


@pytest.mark.parametrize(
    ("events", "train", "other"),
    [
        ([], 1, UNSET),
        ([VALUES], 5, 4),
        ([STEP], 3, 3),
        ([STEP, VALUES], 3, 3),
        ([STEP, BACK], 2, 2),
        ([VALUES, BACK], 3, UNSET),
        ([{"kind": "step", "step": 7, "phase": "eval"}], 1, UNSET),
    ],
)
def test_values_without_a_step_are_at_the_last_one(events: list[dict[str, Any]], train: int, other: Any) -> None:
    """In a run without steps those of phase train are one more than those before."""
    progress = after(*events)
    assert (train, other) == (progress.log_step("train"), progress.log_step("eval"))


def test_settings_that_differ_are_named() -> None:
    """What is gone is None, and what was gone before is not named again."""
    progress = after({"kind": "run_start", "config": {"a": 1, "b": 2, "c": None}}, {**BACK, "config": {"b": 3}})
    assert {} == progress.changed({"a": 1, "b": 3})
    assert {"a": 2, "d": None, "b": None} == progress.changed({"a": 2, "d": None})
    assert {"a": 1} == after({"kind": "run_start", "config": {"a": 1}}, {**BACK, "config": 5}).config
