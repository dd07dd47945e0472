"""Tagged values lose nothing, and anything else is refused."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pytest

from conformance.probes.writers import says_what_nulls_were
from conformance.tagging import TagError, f32_text, float_text, tag_record, to_f32, untag


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.000001, "1e-6"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e16"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (2.0**-1017, "7.120236347223045e-307"),
    ],
)
def test_float_text_has_the_canonical_layout(number: float, text: str) -> None:
    """The text of a number is the one that the encoding chapter defines."""
    assert text == float_text(number)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"),
        (to_f32(0.1), "0.1"),
        (-0.0, "-0.0"),
        (2.0**-96, "1.2621775e-29"),
        (3.4028234663852886e38, "3.4028235e38"),
    ],
)
def test_f32_text_is_the_shortest_of_binary32(number: float, text: str) -> None:
    """The text of a binary32 number is the shortest that reads back to it."""
    assert text == f32_text(number)


def test_f32_text_reads_back_and_nothing_shorter_does() -> None:
    """For arbitrary bits the text reads back, and no decimal with one digit less does."""
    source = random.Random(7)
    for _ in range(2000):
        (number,) = struct.unpack("<f", source.randbytes(4))
        if not math.isfinite(number) or number == 0:
            continue
        text = f32_text(number)
        assert number == to_f32(float(text))
        digits = len(text.partition("e")[0].replace(".", "").lstrip("-0").rstrip("0"))
        shorter = f"{number:.{digits - 2}e}" if digits > 1 else "0"
        assert abs(float(shorter)) > 3.4028235e38 or number != to_f32(float(shorter))


@pytest.mark.parametrize(
    ("profile", "record", "tagged"),
    [
        ("toy/v1", {"kind": "step", "t": 1}, {"kind": "step", "t": {"float": "1.0"}}),
        ("toy/v1", {"kind": "step", "step": 1.0}, {"kind": "step", "step": {"int": "1"}}),
        ("toy/v1", {"kind": "step", "step": 1.5}, {"kind": "step", "step": {"float": "1.5"}}),
        (
            "toy/v1",
            {"kind": "tap", "layer": -0.0, "shape": [2.0]},
            {"kind": "tap", "layer": {"int": "0"}, "shape": [{"int": "2"}]},
        ),
        (
            "toy/v1",
            {"kind": "run_start", "config": {"n": 1.0}},
            {"kind": "run_start", "config": {"n": {"float": "1.0"}}},
        ),
        (None, {"kind": "step", "step": 1.0, "t": 1}, {"kind": "step", "step": {"float": "1.0"}, "t": {"int": "1"}}),
        ("toy/v1", {"kind": "step", "extra": {"a": 5}}, {"kind": "step", "extra": {"a": {"float": "5.0"}}}),
        ("toy/v1", {"kind": "backend", "t": 1}, {"kind": "backend", "t": {"int": "1"}}),
        ("toy/v1", {"kind": ["step"], "t": 1}, {"kind": ["step"], "t": {"int": "1"}}),
        ("toy/v1", {"kind": "tap", "gram": [[1]]}, {"kind": "tap", "gram": [[{"float": "1.0"}]]}),
        (
            "toy/v1",
            {"kind": "run_start", "model": {"rope_base": 10000, "vocab": 5}},
            {"kind": "run_start", "model": {"rope_base": {"float": "10000.0"}, "vocab": {"int": "5"}}},
        ),
        ("metrics/v1", {"loss": 0.1}, {"loss": {"f32": "0.1"}}),
        ("metrics/v1", {"loss": 1e39}, {"loss": {"float": "1e39"}}),
        ("kaun/v1", {"type": "scalar", "value": 2}, {"type": "scalar", "value": {"float": "2.0"}}),
    ],
)
def test_tag_follows_the_place_and_then_the_text(profile: str | None, record: Any, tagged: Any) -> None:
    """A place that the schema types as number has a float, one of integers an integer; elsewhere the text decides."""
    assert tagged == tag_record(record, profile)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "1",
        0,
        -(2**70),
        0.1,
        -0.0,
        [1, [2.5, {}]],
        {"int": "1"},
        {"object": {"float": 1.5}},
        {"a": {"f32": None}},
        {"int": 1, "float": 2},
    ],
)
def test_untagging_gives_the_value_back(value: Any) -> None:
    """Every value survives tagging and untagging, even one that looks like a tag."""
    assert repr(value) == repr(untag(tag_record({"": value}, None))[""])


@pytest.mark.parametrize(
    "tagged",
    [
        1,
        1.5,
        {"int": 1},
        {"int": "1.0"},
        {"int": "01"},
        {"int": "1\n"},
        {"int": "0x1"},
        {"float": "nan"},
        {"float": "1_0"},
        {"float": ""},
        {"f32": None},
        {"f32": "1e39"},
        {"int": "1" * 5000},
        {"object": "x"},
        [{"a": 1}],
    ],
)
def test_what_is_not_a_tagged_value_is_refused(tagged: Any) -> None:
    """A bare number, or a tag with another text, raises TagError."""
    with pytest.raises(TagError):
        untag(tagged)


def test_place_of_an_error_is_named() -> None:
    """The error names the place in the value."""
    with pytest.raises(TagError, match=r"^/a/1 is the bare number 7"):
        untag({"a": [None, 7]})


NAN = {"float": "nan"}


@pytest.mark.parametrize(
    ("given", "words", "is_right"),
    [
        ({"kind": "step", "loss": NAN}, {"loss": "nan"}, True),
        ({"kind": "step", "loss": NAN}, {"loss": "inf"}, False),
        ({"kind": "step", "extra": {"a/b": NAN}}, {"extra/a/b": "nan"}, True),
        ({"kind": "scalars", "values": {"extra/a": NAN}}, {"extra/a": "nan"}, True),
        ({"kind": "scalars", "values": {"a": NAN}}, {"values/a": "nan"}, False),
        ({"kind": "eval", "extra": {"a": [{"float": "1.0"}, {"b": NAN}]}}, {"extra/a/1/b": "nan"}, True),
        ({"kind": "eval", "extra": {"a": [{"float": "1.0"}, NAN]}}, {"extra/a/0": "nan"}, False),
        ({"kind": "eval", "extra": {"a": [NAN]}}, {}, False),
    ],
)
def test_words_belong_to_the_numbers_that_were_null(given: dict[str, Any], words: Any, *, is_right: bool) -> None:
    """A word is that of the number with its name, also in inner lists and objects."""
    assert is_right == says_what_nulls_were(given, words)
