"""The search of the site finds rules, kinds and words, without a server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.watching import PHONE, WIDE, Watch

Question = tuple[str, list[str], str]
"""What is typed, the pages of which one has to come first, and of a known miss the reason why none does."""


def questions(name: str) -> list[Question]:
    """Return the questions of the file *name*; what makes one is in its first lines."""
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    parts = [[*line.split("\t"), ""] for line in lines if not line.startswith("#")]
    return [(query, pages.split(), reason) for _, query, pages, reason, *_ in parts]


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
    for (const [query, pages] of asked) {
        // A search for what is on no page in between empties the list, so that the first result is of this query.
        await type("xylophone", /No matching/);
        if (!(await becomes(() => first() === "", 60_000))) throw new Error(`results of nothing before ${query}`);
        await type(query, /matching document/);
        await becomes(first, 60_000);
        if (!pages.includes(first())) missed.push(query);
    }
    return missed;
}"""
"""Returns the queries whose first result is none of their pages; the page asks by itself, key for key."""


@pytest.mark.parametrize("name", ["search_questions.tsv", "search_questions_held_out.tsv"])
def test_search_finds(page: Page, name: str) -> None:
    """Each question leads to its page, which is the first result, except for the known misses of the file."""
    asked = questions(name)
    search(page, "xylophone")
    wanted = [[query, [f"/toyspec/{one.strip('/')}/".replace("//", "/") for one in pages]] for query, pages, _ in asked]
    assert [query for query, _, reason in asked if reason] == page.evaluate(_MISSED, wanted)


@pytest.mark.parametrize("address", ["", "install/"])
def test_query_comes_from_the_address_or_the_keys(page: Page, address: str) -> None:
    """A link with ?q= searches at once; what is typed after / is whole, however late the scripts come."""
    found = page.locator(".md-search-result__meta")
    page.goto(f"{address}?q=torn+runs")
    expect(found).to_contain_text("matching documents")
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type("torn runs")
    expect(page.locator(".md-search__input")).to_have_value("torn runs")
    expect(found).to_contain_text("matching documents")


def test_result_leads_to_its_page(page: Page) -> None:
    """With the keyboard alone: arrow down and Enter open the first result."""
    search(page, "op_timing")
    expect(page.locator(".md-search-result__link").first).to_have_attribute("href", re.compile("/op_timing/"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/op_timing/**")
    expect(page.locator("article h1")).to_contain_text("op_timing")


ROOT = Path(__file__).resolve().parents[4]
SMALLEST_UNITS = 10.5
"""Size of the smallest letters in a diagram, in units of its own."""
STATEMENTS = json.loads((ROOT / "spec/requirements.json").read_bytes())["requirements"]


def test_table_is_filtered_by_every_word(page: Page) -> None:
    """Only rows with all the words stay, wherever they are in the row, and the field says how many."""
    page.goto("requirements/")
    rows = page.locator("article tbody tr:visible")
    expect(rows).to_have_count(len(STATEMENTS))
    page.get_by_label("Filter").fill("COMMIT-mark reader")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("encoding/commit-mark")
    expect(page.get_by_role("status")).to_have_text(f"1 of {len(STATEMENTS)} rows")
    page.get_by_label("Filter").fill("")
    expect(rows).to_have_count(len(STATEMENTS))


def test_short_table_has_no_filter(page: Page) -> None:
    """A table that is seen at once needs no field."""
    page.goto("explanation/crashes/")
    expect(page.locator(".table-filter")).to_have_count(0)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize(
    ("address", "count"),
    [
        ("", 2),
        ("spec/stream/", 3),
        ("explanation/crashes/", 1),
        ("how-to/read-a-torn-run/", 1),
    ],
)
def test_diagrams_can_be_read(watch: Watch, size: tuple[int, int], address: str, count: int) -> None:
    """Each picture has a name and a description for those who do not see it, and letters of nine pixels and more."""
    page = watch.new_page(size)
    page.goto(address)
    pictures = page.locator("figure.diagram svg")
    expect(pictures).to_have_count(count)
    for picture in pictures.all():
        expect(picture).to_have_accessible_name(picture.locator("title").text_content() or "?")
        expect(picture).to_have_accessible_description(picture.locator("desc").text_content() or "?")
        shown = picture.bounding_box()
        assert shown
        units = float((picture.get_attribute("viewBox") or "").split()[2])
        assert SMALLEST_UNITS * shown["width"] / units >= 9
