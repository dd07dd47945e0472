"""The search of the site finds rules, kinds and words, without a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

Question = tuple[str, list[str], str]
"""What is typed, the pages of which one has to come first, and of a known miss the reason why none does."""


def questions(name: str) -> list[Question]:
    """Return the questions of the file *name*; what makes one is in its first lines."""
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    parts = [[*line.split("\t"), ""] for line in lines if not line.startswith("#")]
    return [(query, pages.split(), reason) for _, query, pages, reason, *_ in parts]


ADDRESSES = "[...document.querySelectorAll('.md-search-result__item > a')].map((link) => new URL(link.href).pathname)"


def search(page: Page, query: str) -> None:
    """Open the search of the start page and type *query* once the index is there."""
    page.goto("")
    page.keyboard.press("/")
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile("Type to start searching"))
    # At once, so that no results of a part of it come in between; the search listens to keys.
    page.keyboard.insert_text(query)
    page.keyboard.press("End")


_MISSED = """async (asked) => {
    const field = document.querySelector(".md-search__input");
    const meta = () => document.querySelector(".md-search-result__meta").textContent;
    const first = () => {
        const link = document.querySelector(".md-search-result__item > a");
        return link ? new URL(link.href).pathname : "";
    };
    const becomes = async (holds, milliseconds) => {
        const end = performance.now() + milliseconds;
        while (!holds() && performance.now() < end) await new Promise(requestAnimationFrame);
        return holds();
    };
    const type = async (text, shown) => {
        field.value = text;
        field.dispatchEvent(new KeyboardEvent("keyup", {key: "End", bubbles: true}));
        if (!(await becomes(() => shown.test(meta()), 60_000))) throw new Error(`no answer to ${text}: ${meta()}`);
    };
    const missed = [];
    for (const [query, pages, milliseconds] of asked) {
        // A search for what is on no page in between, so that no results of the query before are taken.
        await type("xylophone", /No matching/);
        await type(query, /matching document/);
        if (!(await becomes(() => pages.includes(first()), milliseconds))) missed.push(query);
    }
    return missed;
}"""
"""Returns the queries whose first result is none of their pages; the page asks by itself, key for key."""


@pytest.mark.parametrize("name", ["search_questions.tsv", "search_questions_held_out.tsv"])
def test_search_finds(page: Page, name: str) -> None:
    """Each question leads to its page, which is the first result, except for the known misses of the file."""
    asked = questions(name)
    search(page, "xylophone")
    wanted = [
        [query, [f"/toyspec/{one.strip('/')}/".replace("//", "/") for one in pages], 1_000 if reason else 15_000]
        for query, pages, reason in asked
    ]
    assert [query for query, _, reason in asked if reason] == page.evaluate(_MISSED, wanted)


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
