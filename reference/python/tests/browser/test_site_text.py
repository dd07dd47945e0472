"""The pages of the built site as text: links, titles, headings and the names of pictures."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from browser.built_pages import BuiltPage, broken, is_elsewhere, read_page, read_site
from browser.serving import ROOT

Pages = dict[str, BuiltPage]
RULES = [rule["id"] for rule in json.loads((ROOT / "schemas/rules.json").read_text(encoding="utf-8"))["rules"]]


@pytest.fixture(scope="module")
def pages(site: Path) -> Pages:
    """Return the pages of the site by their addresses."""
    return read_site(site)


def test_links_lead_somewhere(site: Path, pages: Pages) -> None:
    """Every link within the site is relative and leads to a file, and to an anchor of it where it names one."""
    missing = {page.address: sorted(set(broken(page, page.links, site, pages))) for page in pages.values()}
    assert {} == {address: found for address, found in missing.items() if found}


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: Pages) -> None:
    """What a page loads are files of the site."""
    elsewhere = {(page.address, load) for page in pages.values() for load in page.loads if is_elsewhere(load)}
    assert set() == {(page, load) for page, load in elsewhere if not load.startswith("data:")}
    missing = {page.address: list(broken(page, page.loads, site, pages)) for page in pages.values()}
    assert {} == {address: found for address, found in missing.items() if found}


def test_style_sheets_load_nothing_from_elsewhere(site: Path) -> None:
    """No style sheet imports a file or a font of another host."""
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert "url(http" not in text, path
        assert "url(//" not in text, path
        assert "@import" not in text, path


def test_titles_differ(pages: Pages) -> None:
    """Each page has a title that no other page has, and says its language."""
    titles = Counter(page.title for page in pages.values())
    assert {} == {title: number for title, number in titles.items() if number > 1 or not title}
    assert {"en"} == {page.language for page in pages.values()}


def test_headings_are_in_order(pages: Pages) -> None:
    """Each page begins with its one heading of level 1, and no level is skipped on the way down."""
    wrong = {}
    for page in pages.values():
        levels = [level for level, _ in page.headings]
        steps = pairwise(levels)
        if levels[:1] != [1] or levels.count(1) != 1 or any(after > before + 1 for before, after in steps):
            wrong[page.address] = page.headings
    assert {} == wrong


def test_pictures_are_named(pages: Pages) -> None:
    """Each picture and drawing has a text for those who do not see it, or is said to be decoration."""
    assert {} == {page.address: page.unnamed for page in pages.values() if page.unnamed}


@pytest.mark.parametrize("rule", RULES)
def test_rule_has_a_page(pages: Pages, rule: str) -> None:
    """The id that a finding shows is the last part of the address of its page, which the specification links to."""
    page = pages[f"spec/rules/{rule}/"]
    assert f"{rule} - toyspec" == page.title
    assert ["What it checks", "Why", "Example", "What to do"] == [text for level, text in page.headings if level == 2]
    assert any(link.endswith(f"rules/{rule}/") for link in pages["spec/"].links)
    assert f"{rule}/" in pages["spec/rules/"].links


def test_site_has_the_colours_of_the_viewer() -> None:
    """Each colour of the viewer that the site has too has the same value, light and dark."""
    sheets = [ROOT / "reference/viewer/src/app.css", ROOT / "docs/assets/extra.css"]
    light, dark = 0, 1
    found = []
    for sheet in sheets:
        blocks = re.findall(r"\{([^{}]*--surface: #[^{}]*)\}", sheet.read_text(encoding="utf-8"))
        found.append([dict(re.findall(r"--([\w-]+): (#\w+);", block)) for block in blocks])
    viewer, site = found
    assert [2, 2] == [len(viewer), len(site)]
    for scheme in (light, dark):
        colours = {name: value for name, value in site[scheme].items() if not name.startswith("md-")}
        assert colours == {name: viewer[scheme].get(name) for name in colours}


BAD = """
<html lang="en"><head><title>a</title><script src="https://elsewhere.example/a.js"></script></head><body>
<svg><title>no title of the page</title></svg>
<article><h1 id="top">A <code>b</code><a class="headerlink" href="#top">¶</a></h1><h3>c</h3>
<img src="a.png"><img src="a.png" alt="named"><svg role="img"><path d=""/></svg><svg aria-hidden="true"></svg>
<a title="named" href="missing/"><svg></svg></a><a href="/absolute/">d</a><a href="#none">e</a><a href="#top">f</a>
<a href="https://elsewhere.example/">g</a></article></body></html>
"""


def test_problems_of_a_page_are_seen(tmp_path: Path) -> None:
    """A reader that saw nothing would let every test here pass."""
    page = read_page(BAD, "")
    (tmp_path / "index.html").write_text(BAD, encoding="utf-8")
    assert "a" == page.title
    assert [(1, "A b"), (3, "c")] == page.headings
    assert ['<img src="a.png">', '<svg role="img">'] == page.unnamed
    assert ["missing/", "/absolute/", "#none"] == list(broken(page, page.links, tmp_path, {"": page}))
    assert ["https://elsewhere.example/a.js"] == [load for load in page.loads if is_elsewhere(load)]
