"""What writers say in ``nonfinite``: names and words, compared with the numbers that they were given."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.probes.writers import says_what_nulls_were

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
        ({"kind": "eval", "extra": {"a": [NAN]}}, {"a/0": "nan"}, False),
        ({"kind": "eval", "extra": {"a": [NAN]}}, {}, False),
    ],
)
def test_words_belong_to_the_numbers_that_were_null(given: dict[str, Any], words: Any, *, is_right: bool) -> None:
    """A word is that of the number with its name, also in inner lists and objects."""
    assert is_right == says_what_nulls_were(given, words)
