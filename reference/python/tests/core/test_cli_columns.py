from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.command_line.tables import cut, cut_apart, cut_middle, cut_start, padded, width, wrapped


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("é", 1), ("e\u0301", 1), ("損失", 4), ("🔥", 2), ("❤\ufe0f", 1), ("हिन्दी", 5), ("\u20dd", 0)],
    ids=["ascii", "accent", "combining accent", "wide", "emoji", "variation", "vowel signs", "enclosing"],
)
def test_width(text: str, columns: int) -> None:
    """A mark takes no column of its own, a wide character two."""
    assert columns == width(text)


def test_cut_keeps_wide_characters_whole() -> None:
    """A cut never exceeds the limit, even if a character of two columns would not fit."""
    assert ("損…", "…失", "損失 ") == (cut("損失曲線", 4), cut_start("損失", 3), padded("損失", 5))


def test_wrapped_counts_columns() -> None:
    """Lines of wide characters are half as long; a long word stays whole."""
    assert ["  損失", "> 曲線", "> abcdefgh"] == wrapped("  損失 曲線 abcdefgh", 6, "> ")


def test_names_that_differ_stay_different() -> None:
    """A name loses its middle, or the words that all begin and end with; where that does not fit, all are whole."""
    assert ("llama-…1-001", "run") == (cut_middle("llama-20261121-001", 12), cut_middle("run", 12))
    dates = [f"{name}-20261121-001" for name in ("llama", "llava", "gemma")]
    assert ["llama-…1-001", "llava-…1-001", "gemma-…1-001"] == cut_apart(dates, 12)
    assert ["…a…", "…b…"] == cut_apart(["run-a-and-more-last", "run-b-and-more-last"], 8)
    whole = ["run-a-and-more-last", "run-b-and-yet-more-last", "mlp"]
    assert whole == cut_apart(whole, 9)
    sweep = [f"llama-lr-{lr}-wd-{wd}-20261121" for lr in (1, 2) for wd in (1, 2)]
    assert ["…1-wd-1…", "…1-wd-2…", "…2-wd-1…", "…2-wd-2…"] == cut_apart(sweep, 14)
    assert ["same", "same"] == cut_apart(["same", "same"], 8)


@given(st.lists(st.text(alphabet="ab-損", max_size=30), max_size=12), st.integers(0, 20))
def test_cut_names_are_distinct_and_fit_or_whole(names: list[str], limit: int) -> None:
    """Whatever the names are, different ones stay different, and all are whole if one is wider than the limit."""
    found = cut_apart(names, limit)
    assert len(set(names)) == len(set(found))
    assert found == names or all(width(name) <= max(limit, 8) for name in found)
