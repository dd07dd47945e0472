from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.errors import ExpressionError
from toyspec.core.runs.columns import meets
from toyspec.core.runs.expressions import expression
from toyspec.view.rows import facts_of_row

VECTORS: dict[str, Any] = json.loads(Path(__file__).parents[1].joinpath("expressions.json").read_bytes())
FACTS = facts_of_row(VECTORS["run"])


def holds(text: str) -> bool:
    """Return whether the run of the vectors meets *text*."""
    return meets(FACTS, [expression(text)])


def test_a_run_that_meets_a_filter_passes() -> None:
    """What the viewer accepts is accepted here too."""
    assert [] == [text for text in VECTORS["met"] if not holds(text)]


def test_a_run_that_does_not_meet_a_filter_is_left_out() -> None:
    """What the viewer leaves out, is left out here too."""
    assert [] == [text for text in VECTORS["not_met"] if holds(text)]


@pytest.mark.parametrize(("text", "at"), VECTORS["refused"], ids=lambda value: str(value)[:12])
def test_a_filter_that_cannot_be_read_is_refused_with_the_place(text: str, at: int) -> None:
    """The place is the one that the viewer names, and the message counts it from 1."""
    with pytest.raises(ExpressionError, match=rf"\(at character {at + 1}\)$") as caught:
        expression(text)
    assert at == caught.value.at


@given(st.text(alphabet="ab .<>=!~()'\"0e-5%andort", max_size=30))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    """Nothing but ExpressionError is raised, and a filter that was read gives an answer."""
    with contextlib.suppress(ExpressionError):
        assert holds(text) in (True, False)


def test_fields_of_a_filter_are_those_it_compares() -> None:
    """Words alone are not fields; what is not known needs no reading of whole streams."""
    assert ("lr", "val/acc") == tuple(expression("llama lr < 1 and not (val/acc > .7 or lr = 2)").fields)
