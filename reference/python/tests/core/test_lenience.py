"""Where a record is placed: its kind, phase and step, without a stream."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from msgspec import UNSET

from toyspec.core.generated.toy_v1 import Step
from toyspec.core.writing.lenience import goes_back, make_values, number_step, place
from toyspec.core.writing.run_progress import COUNTED, Resumption, RunProgress


def begun() -> RunProgress:
    """Return the progress of a run with its start, and a value at step 3."""
    progress = RunProgress()
    progress.take("run_start", {"t": 0.0, "run_id": "r"})
    progress.take("scalars", {"t": 0.0, "step": 3, "values": {"a": 1.0}})
    return progress


def placed(kind: str, *, is_lenient: bool = True, **members: Any) -> tuple[str, dict[str, Any], object, list[str]]:
    """Return kind and members after placing, the step that may say where a run goes on, and what is left out."""
    given = {"kind": kind, **members}
    kind, first, left_out = place(kind, given, begun(), Resumption(), is_lenient=is_lenient)
    del given["kind"]
    return kind, given, first, [name for name, _ in left_out]


def test_a_step_that_is_not_given_is_counted() -> None:
    """Values belong to one step more than the last at which any were logged."""
    assert ("scalars", {"step": 4, "values": {}}, 4, []) == placed("scalars", step=COUNTED, values={})


@pytest.mark.parametrize(("step", "number"), [("5", 5), (5.0, 5), (True, None), (-1, None), ("x", None)])
def test_a_step_is_an_integer_or_one_of_the_values(step: object, number: int | None) -> None:
    """What can be a step is its number; all else is left out as a step, and stays as a value."""
    kind, given, first, left_out = placed("scalars", step=step, values={"a": 1.0})
    expected = {"a": 1.0} if number is not None else {"a": 1.0, "given_step": step}
    assert ("scalars", expected, number or 4, [] if number else ["step"]) == (kind, given["values"], first, left_out)


def test_what_is_not_lenient_stays() -> None:
    """The encoder refuses it, with the reason."""
    members = {"step": "x", "phase": "val", "values": {"a": 1.0}}
    assert ("scalars", members, UNSET, []) == placed("scalars", is_lenient=False, **members)


def test_values_of_another_phase_have_its_name() -> None:
    """A step becomes values, whose step says nothing about where the run goes on."""
    kind, given, first, left_out = placed("step", step=2, phase="val", loss=0.5, extra={"acc": 1.0})
    assert ("scalars", {"val": {"loss": 0.5, "acc": 1.0}}, UNSET, ["phase"]) == (kind, given["values"], first, left_out)


def test_a_phase_may_be_a_member_of_an_enumeration() -> None:
    """Its value is the phase."""
    phase = Enum("phase", {"EVAL": "eval"}).EVAL  # type: ignore[attr-defined]
    assert ("scalars", {"step": 1, "phase": "eval", "values": {}}, UNSET, []) == placed(
        "scalars", step=1, phase=phase, values={}
    )


def test_a_step_event_gets_a_number_or_a_value() -> None:
    """A text of digits is a number; what cannot be one is in extra."""
    event = Step(t=0.0, step="7")  # type: ignore[arg-type]
    assert (None, 7) == (number_step(event), event.step)
    event = Step(t=0.0, step="x", extra={"a": 1.0})  # type: ignore[arg-type]
    left_out = number_step(event)
    assert left_out is not None
    assert ("step", {"a": 1.0, "given_step": "x"}) == (left_out.name, event.extra)


def test_a_step_goes_back_that_is_not_after_the_last() -> None:
    """Only a number can, and only where there is a last one."""
    assert [True, True, False, False, False] == [
        goes_back(*each) for each in ((1, 2), (2, 2), (3, 2), (1, None), ("1", 2))
    ]


def test_a_step_has_its_members_as_values() -> None:
    """Step and phase say where they are; the rest of the envelope goes."""
    members = {"kind": "step", "t": 0.5, "step": 1, "phase": "eval", "loss": 0.5, "extra": {"a": 1.0}, "nonfinite": {}}
    make_values(members)
    assert {"kind": "scalars", "step": 1, "phase": "eval", "values": {"loss": 0.5, "a": 1.0}} == members
