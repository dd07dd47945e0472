"""Scalars of any library become built-in ones."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from toyspec.core.format.scalars import integer, items, number, text


class Indexed:
    """An integer of a library."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (Fraction(1, 4), 0.25),
        (Decimal("-0.5"), -0.5),
        (Indexed(), 7.0),
        (None, None),
        (math.nan, None),
        (-math.inf, None),
        (10**400, None),
        (Decimal("1e400"), None),
    ],
)
def test_a_number_is_finite_or_none(value: Any, expected: float | None) -> None:
    """Whatever is a number becomes binary64, and None where it is not finite there."""
    assert expected == number(value)


@pytest.mark.parametrize("value", [True, "1", b"1", [1.0], 1j, object()])
def test_only_numbers_are_accepted(value: Any) -> None:
    """A boolean or a string is not a number."""
    with pytest.raises(TypeError):
        number(value)


def test_an_integer_has_no_fraction() -> None:
    """An integer of any library is one; 1.0 and True are none."""
    assert (3, 7, None) == (integer(3), integer(Indexed()), integer(None))
    for value in (1.0, True, "1"):
        with pytest.raises(TypeError):
            integer(value)


def test_items_are_those_of_a_sequence() -> None:
    """Lists, tuples and sets have items; strings, mappings and scalars are not arrays."""
    assert ([1], (2,), [3, 4]) == (items([1]), items((2,)), items({4, 3}))
    assert [None, None, None] == [items("ab"), items({"a": 1}), items(1.0)]


def test_text_is_utf8() -> None:
    """Halves of surrogate pairs are replaced, whole pairs and all else stay."""
    assert ("é", "\ufffdx", "\U0001f600") == (text("é"), text("\ud83dx"), text("\ud83d\ude00"))
