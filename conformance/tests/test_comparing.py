"""A comparison finds every difference and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.cases import Case, Finding
from conformance.comparing import (
    differences,
    finding_differences,
    item_differences,
    record_differences,
    value_differences,
)

CASE = Case(
    name="toy-v1/a/b",
    folder="",
    why="",
    files={},
    stream=None,
    profile="toy/v1",
    state="complete",
    records=({"kind": "note", "t": {"float": "1.0"}},),
    findings=(Finding(rule="missing-key", line=1, pointer="/text"),),
)
RIGHT = {
    "profile": "toy/v1",
    "state": "complete",
    "records": [{"kind": "note", "t": {"float": "1e0"}}],
    "findings": [{"rule": "missing-key", "line": 1, "pointer": "/text", "message": "no text", "offset": 5}],
    "suppressed": {},
}


def test_right_answer_has_no_difference() -> None:
    """Differences in spelling, messages and offsets do not count."""
    assert [] == differences(CASE, RIGHT)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("profile", "kaun/v1"),
        ("state", "torn"),
        ("records", []),
        ("records", [{"kind": "note", "t": {"float": "2.0"}}]),
        ("findings", []),
        ("findings", [{"rule": "missing-key", "line": 2, "pointer": "/text"}]),
        ("findings", [{"rule": "missing-key", "line": 1, "pointer": ""}]),
        ("findings", [{"rule": "missing-key", "line": 1, "pointer": "/text", "sidecar": "run.json"}]),
        ("suppressed", {"missing-key": 1}),
    ],
)
def test_wrong_part_is_reported(part: str, value: Any) -> None:
    """Each wrong part gives a difference."""
    assert differences(CASE, {**RIGHT, part: value})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"float": "0.1"}, {"float": "1e-1"}),
        ({"float": "1e16"}, {"float": "10000000000000000.0"}),
        ({"f32": "0.1"}, {"f32": "0.10000000149011612"}),
        ({"int": "0"}, {"int": "-0"}),
        ({"int": "9007199254740993"}, {"int": "9007199254740992"}),
        ({"object": {"int": None}}, {"object": {"int": None}}),
        ({"a": [None, True, "x"]}, {"a": [None, True, "x"]}),
    ],
)
def test_equal_values(one: Any, other: Any) -> None:
    """Numbers are compared by value, integers beyond the safe range by their binary64 value."""
    assert [] == list(value_differences(one, other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"float": "0.1"}, {"float": "0.10000000000000002"}),
        ({"float": "0.0"}, {"float": "-0.0"}),
        ({"float": "1.0"}, {"int": "1"}),
        ({"f32": "0.1"}, {"float": "0.1"}),
        ({"int": "9007199254740991"}, {"int": "9007199254740992"}),
        ({"int": "9007199254740993"}, {"int": "9007199254740996"}),
        ({"float": "1.0"}, {"float": "one"}),
        ({"float": "1.0"}, {"float": 1.0}),
        ({"float": "1.0"}, 1.0),
        (True, {"int": "1"}),
        (None, False),
        ("1", {"int": "1"}),
        ({}, []),
        ([], [None]),
        ({"a": None}, {}),
        ({}, {"a": None}),
        ({"object": {"int": None}}, {"int": "1"}),
        ({"object": {"int": None}}, {"object": 1}),
        ({"": None}, {"": True}),
        ({"a": {"int": "1"}}, {"int": "1"}),
    ],
)
def test_different_values(one: Any, other: Any) -> None:
    """Every difference in value, type or sign is reported, in both directions."""
    assert list(value_differences(one, other))


def test_difference_says_where() -> None:
    """The place of a difference is named like a pointer."""
    assert ['/a/1/b is {"int": "2"}, expected {"int": "1"}'] == list(
        value_differences({"a": [None, {"b": {"int": "1"}}]}, {"a": [None, {"b": {"int": "2"}}]})
    )


def test_findings_in_another_order_are_reported() -> None:
    """The order of findings counts, and the first one out of order is named."""
    one, other = Finding(rule="a", line=1, pointer=""), Finding(rule="b", line=2, pointer="")
    (difference,) = finding_differences([one, other], [other, one])
    assert "the order differs" in difference


def test_finding_given_twice_is_reported() -> None:
    """A repeated finding counts once."""
    one = Finding(rule="a", line=1, pointer="")
    assert ["not expected: a at line 1, the whole line"] == finding_differences([one], [one, one])


RECORD = {"record": {"t": {"float": "1.0"}}}
EVENT = {"event": "rotated"}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([], []),
        ([RECORD, EVENT], [{"record": {"t": {"float": "1"}}}, EVENT]),
        ([{**EVENT, "optional": True}, RECORD], [RECORD]),
        ([{**EVENT, "optional": True}, RECORD], [EVENT, RECORD]),
        ([RECORD, {**EVENT, "optional": True}], [RECORD]),
    ],
)
def test_items_as_expected(expected: list[Any], actual: list[Any]) -> None:
    """Records are compared by value, and an optional item may be missing."""
    assert [] == item_differences(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([RECORD], []),
        ([], [RECORD]),
        ([RECORD, EVENT], [EVENT, RECORD]),
        ([EVENT], [{"event": "gone"}]),
        ([{"gap": {"offset": 1, "length": 2, "reason": "x"}}], [{"gap": {"offset": 1, "length": 3, "reason": "x"}}]),
        ([{**EVENT, "optional": True}, RECORD], [EVENT]),
    ],
)
def test_items_that_differ(expected: list[Any], actual: list[Any]) -> None:
    """An item that is missing, surplus, out of order or different is reported."""
    assert item_differences(expected, actual)


@pytest.mark.parametrize(
    ("actual", "fact"),
    [
        ([1, 2, 9, 3, 4], 'record 2 was not expected: {"int": "9"}'),
        ([1, 3, 4], 'record 1 is missing: {"int": "2"}'),
    ],
)
def test_one_record_too_many_is_one_difference(actual: list[int], fact: str) -> None:
    """Lists of records are compared by content: those after a surplus or missing one are not different."""
    tagged = [{"int": str(number)} for number in actual]
    expected = [{"int": str(number)} for number in (1, 2, 3, 4)]
    assert [f"there are {len(actual)} records, expected 4", fact] == list(record_differences(expected, tagged))
