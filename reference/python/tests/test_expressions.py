from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.errors import ExpressionError
from toyspec.runs.columns import meets
from toyspec.runs.expressions import expression
from toyspec.runs.patterns import PatternError, pattern
from toyspec.runs.rows import facts_of_row

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("expressions.json").read_bytes())
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
    assert ("lr", "val/acc") == expression("llama lr < 1 and not (val/acc > .7 or lr = 2)").fields


PIECES = [*"ab1|.^$", "(", ")", "(?:", "*", "+?", "?", "{1,2}", "{2}", "[ab]", "[^a-b]", r"\d", r"\W", r"\.", "[-a]"]
PATTERNS = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@given(PATTERNS, st.text(alphabet="ab1.-\n", max_size=8))
def test_patterns_match_as_those_of_python(text: str, value: str) -> None:
    """What is accepted has a match where the same pattern of Python has one."""
    try:
        found = pattern(text)
    except PatternError:
        return
    assert (re.search(text.replace("$", r"\Z"), value, re.DOTALL | re.ASCII) is not None) == found.is_in(value)


@pytest.mark.parametrize(("text", "fact"), [
    ("a)", "a ) without its ("), ("(a", "a ( is not closed"), ("(?=a)", "(? is not supported; write ( or (?:"),
    ("(" * 50 + ")" * 50, "more than 50 levels of parentheses"), ("^*", "* after ^ or $"), ("a+*", "* after +"),
    ("a{x}", "{ without numbers; write \\{ for the character"),
    ("a{2", "{ without numbers; write \\{ for the character"),
    ("a{3,2}", "{3,2}: the numbers must ascend, up to 200"),
    ("a{201,}", "{201,}: the numbers must ascend, up to 200"),
    ("?", "? repeats nothing; write \\? for the character"), ("\\q", "\\q is not supported"),
    ("\\", "\\ is not supported"),
    ("[]", "[] is empty"), ("[b-a]", "b-a is not a range"), ("[a-\\d]", "a- is not a range"),
    ("[a", "a [ is not closed; within it, write \\[ for the character"),
    ("[\\D]", "\\D, \\W and \\S are not supported within [ ]"),
    ("(a{200}){200}", "it is too long, or repeats too much"),
])  # fmt: skip
def test_pattern_that_cannot_be_read_is_explained(text: str, fact: str) -> None:
    """The message names the first part that is wrong."""
    with pytest.raises(PatternError) as raised:
        pattern(text)
    assert fact == str(raised.value)


def test_pattern_takes_linear_time() -> None:
    """What makes other engines try for years is answered in steps that grow with the text alone."""
    assert not pattern("(a|a)*(a+)+b{1,9}").is_in("a" * 5000)
