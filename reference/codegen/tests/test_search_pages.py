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
    {"location": "spec/rules/duplicate-key/", "title": "duplicate-key"},
]
TERMS = """\
forms = ["lose lost"]
synonyms = ["chart plot"]
[tasks]
"a/#b" = ["draw a chart"]
"""
TASKS = ["draw a chart"]
MESSAGES = ["an object has the same key twice", "key `` already occurred in this object"]


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    """Return the words of people who do not know those of the site."""
    path = tmp_path / "search.toml"
    path.write_text(TERMS, encoding="utf-8")
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a built site of three pages, one with a description of its own, with the theme's worker."""
    for name, description in {
        "404.html": "the site",
        "index.html": "the site",
        "a/index.html": "what &lt;a&gt; is for",
        "spec/rules/duplicate-key/index.html": "the site",
    }.items():
        page = tmp_path / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<meta name="description" content="{description}">', encoding="utf-8")
    for name, text in {"search/search_index.json": json.dumps({"config": 1, "docs": DOCS}), WORKER: "ours"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "assets/javascripts/workers").mkdir(parents=True)
    (tmp_path / "assets/javascripts/workers/search.1a2b.min.js").write_text("theirs", encoding="utf-8")
    return tmp_path


def test_pages_are_moved_with_what_newcomers_call_things(site: Path, terms: Path) -> None:
    """The theme loads no pages; the worker finds them, and the words by which newcomers look for them."""
    move_pages(site, terms)
    assert {"config": 1, "docs": []} == json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    start, page, section, rule = DOCS
    assert {
        "docs": [
            start,
            page | {"description": "what <a> is for"},
            section | {"tasks": TASKS},
            rule | {"tasks": MESSAGES},
        ],
        "forms": ["lose lost"],
        "synonyms": ["chart plot"],
    } == json.loads((site / "search/pages.json").read_text(encoding="utf-8"))


def test_task_of_no_page_is_refused(site: Path, terms: Path) -> None:
    """A section that was renamed does not lose its tasks in silence: the build names the address."""
    terms.write_text(TERMS.replace("a/#b", "a/#c"), encoding="utf-8")
    with pytest.raises(SystemExit, match="no page of the site has a/#c"):
        move_pages(site, terms)


def test_without_npm_the_theme_searches(site: Path, terms: Path) -> None:
    """Where our worker was not built, the theme's is at its place, and finds pages and tasks where it looks."""
    (site / WORKER).unlink()
    move_pages(site, terms)
    assert "theirs" == (site / WORKER).read_text(encoding="utf-8")
    start, page, section, rule = DOCS
    expected = [start | {"tags": []}, page | {"tags": []}, section | {"tags": TASKS}, rule | {"tags": MESSAGES}]
    assert expected == json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
