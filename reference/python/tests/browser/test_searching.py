"""The search of the site finds rules, kinds and words, without a server."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Error, Page, expect

QUESTIONS = [
    line.split("\t")
    for line in Path(__file__).with_name("search_questions.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
"""The set, the question and the pages of which one has to come first, separated by spaces."""

WANTED = {"name": 1.0, "tuned": 0.9, "first": 0.9, "second": 0.7, "third": 0.8}
"""The share of each set that has to have its page first. What is the name of something leads to it, always."""

ADDRESSES = "[...document.querySelectorAll('.md-search-result__item > a')].map((link) => new URL(link.href).pathname)"


def search(page: Page, query: str) -> None:
    """Open the search of the start page and type *query* once the index is there."""
    page.goto("")
    page.keyboard.press("/")
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile("Type to start searching"))
    # At once, so that no results of a part of it come in between; the search listens to keys.
    page.keyboard.insert_text(query)
    page.keyboard.press("End")


def first_result(page: Page, query: str, wanted: list[str]) -> str:
    """Return the page that comes first for *query*, as soon as it is one of *wanted*, else after a while."""
    # A search for what is on no page in between, so that no results of the query before are taken.
    for text, shown in (("xylophone", "No matching"), (query, "matching document")):
        page.locator(".md-search__input").fill(text)
        page.keyboard.press("End")
        expect(page.locator(".md-search-result__meta")).to_have_text(re.compile(shown))
    with suppress(Error):
        page.wait_for_function(
            f"pages => pages.includes({ADDRESSES}[0])",
            arg=[f"/toyspec/{one.strip('/')}/".replace("//", "/") for one in wanted],
            timeout=1500,
        )
    results = page.evaluate(ADDRESSES) or ["nothing"]
    return str(results[0]).removeprefix("/toyspec/") or "/"


def test_search_finds(page: Page) -> None:
    """A question, in words of the project or of someone new to it, leads to its page, which is the first result."""
    search(page, "xylophone")
    first: dict[str, list[bool]] = {name: [] for name in WANTED}
    others = {}
    for name, query, pages in QUESTIONS:
        found = first_result(page, query, pages.split())
        first[name].append(found in pages.split())
        if found not in pages.split():
            others[query] = found
    shares = {name: sum(found) / len(found) for name, found in first.items()}
    assert [] == [name for name, share in WANTED.items() if shares[name] < share], (shares, others)


def test_search_finds_nothing_for_what_is_not_there(page: Page) -> None:
    """A word that is on no page has no result."""
    search(page, "xylophone")
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile("No matching documents"))
    assert [] == page.evaluate(ADDRESSES)


def test_result_leads_to_its_page(page: Page) -> None:
    """With the keyboard alone: arrow down and Enter open the first result."""
    search(page, "op_timing")
    expect(page.locator(".md-search-result__link").first).to_have_attribute("href", re.compile("/op_timing/"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/op_timing/**")
    expect(page.locator("article h1")).to_contain_text("op_timing")
