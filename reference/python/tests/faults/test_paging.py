"""What a run writes into a page is between its marks, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import paging

PAGE = "a\n<!-- x -->\nold\n\nold\n<!-- /x -->\nb <!-- y -->\n<!-- /y -->\n"


def test_figures_replace_those_of_the_run_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published twice, only the second figures are there; back references in them are text."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(paging, "PAGE", str(page))
    paging.publish("x", ["first"])
    paging.publish("x", [r"\1", "second"])
    assert "a\n<!-- x -->\n\n\\1\nsecond\n\n<!-- /x -->\nb <!-- y -->\n<!-- /y -->\n" == page.read_text()


@pytest.mark.parametrize("mark", ["z", "y"])
def test_a_page_without_the_marks_is_an_error(mark: str) -> None:
    """Figures that have no place, or whose mark does not stand alone on its line, are not dropped without a word."""
    text = PAGE if mark == "z" else PAGE.replace("<!-- /y -->", "")
    with pytest.raises(ValueError, match="has to be there once"):
        paging.replaced(text, mark, ["x"])


def test_nothing_is_written_where_no_page_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a page leaves all files alone."""
    monkeypatch.setattr(paging, "PAGE", "")
    paging.publish("x", ["first"])
