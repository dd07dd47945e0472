"""Tests of what the search of the site loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codegen.site.search_pages import WORKER, move_pages

DOCS = [
    {"location": "", "title": "Start", "text": ""},
    {"location": "a/", "title": "A"},
    {"location": "a/#b", "title": "B"},
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a built site of two pages, one with a description of its own, with the theme's worker."""
    for name, description in {
        "404.html": "the site",
        "index.html": "the site",
        "a/index.html": "what &lt;a&gt; is for",
    }.items():
        page = tmp_path / name
        page.parent.mkdir(exist_ok=True)
        page.write_text(f'<meta name="description" content="{description}">', encoding="utf-8")
    for name, text in {"search/search_index.json": json.dumps({"config": 1, "docs": DOCS}), WORKER: "ours"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "assets/javascripts/workers").mkdir(parents=True)
    (tmp_path / "assets/javascripts/workers/search.1a2b.min.js").write_text("theirs", encoding="utf-8")
    return tmp_path


def test_pages_are_moved_with_their_descriptions(site: Path) -> None:
    """The theme loads no pages; the worker finds them, and what each page with a description is for."""
    move_pages(site)
    assert {"config": 1, "docs": []} == json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    moved = json.loads((site / "search/pages.json").read_text(encoding="utf-8"))["docs"]
    assert [DOCS[0], DOCS[1] | {"description": "what <a> is for"}, DOCS[2]] == moved


def test_without_npm_the_theme_searches(site: Path) -> None:
    """Where our worker was not built, the theme's is at its place, and finds the pages where it looks for them."""
    (site / WORKER).unlink()
    move_pages(site)
    assert "theirs" == (site / WORKER).read_text(encoding="utf-8")
    assert {"config": 1, "docs": DOCS} == json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
