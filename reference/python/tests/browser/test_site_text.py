"""The pages of the built site as text: links, titles and headings."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from browser.built_pages import BuiltPage, broken, read_page, read_site
from browser.serving import ROOT

Pages = dict[str, BuiltPage]
RULES = [rule["id"] for rule in json.loads((ROOT / "schemas/rules.json").read_text(encoding="utf-8"))["rules"]]


@pytest.fixture(scope="module")
def pages(site: Path) -> Pages:
    """Return the pages of the site by their addresses."""
    return read_site(site)


def test_links_lead_somewhere(site: Path, pages: Pages) -> None:
    """Every link within the site is relative and leads to a file, and to an anchor of it where it names one."""
    missing = {page.address: sorted(set(broken(page, site, pages))) for page in pages.values()}
    assert {} == {address: found for address, found in missing.items() if found}


def test_titles_differ(pages: Pages) -> None:
    """Each page has a title that no other page has, and says its language."""
    titles = Counter(page.title for page in pages.values())
    assert {} == {title: number for title, number in titles.items() if number > 1 or not title}
    assert {"en"} == {page.language for page in pages.values()}


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
<html lang="en"><head><title>a</title><script src="missing.js"></script></head><body>
<svg><title>no title of the page</title></svg>
<article><h1 id="top">A <code>b</code><a class="headerlink" href="#top">¶</a></h1><h3>c</h3>
<a href="missing/"><svg><path d=""/></svg></a><a href="/absolute/">d</a><a href="#none">e</a><a href="#top">f</a>
<a href="https://elsewhere.example/">g</a></article></body></html>
"""


def test_problems_of_a_page_are_seen(tmp_path: Path) -> None:
    """A reader that saw nothing would let every test here pass."""
    page = read_page(BAD, "")
    (tmp_path / "index.html").write_text(BAD, encoding="utf-8")
    assert "a" == page.title
    assert [(1, "A b"), (3, "c")] == page.headings
    assert ["missing.js", "missing/", "/absolute/", "#none"] == list(broken(page, tmp_path, {"": page}))
