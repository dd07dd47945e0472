"""The search of the site finds rules, kinds and words, without a server."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Error, Page, expect

QUERIES = {
    # What people ask.
    "NaN": "explanation/numbers/",
    "torn": "explanation/crashes/",
    "resume": "how-to/resume-after-preemption/",
    "how do I log from pytorch": "how-to/log-from-frameworks/",
    "number format": "explanation/numbers/",
    "wandb": "how-to/come-from-another-tracker/",
    "validate in github actions": "how-to/check-in-ci/",
    "install": "install/",
    "step": "spec/toy/v1/step/",
    "plot loss curve": "how-to/read-with-pandas-polars-duckdb/",
    "corrupt file": "how-to/read-a-torn-run/",
    "what is a bundle": "spec/bundle/",
    "changelog": "changelog/",
    "compare two runs": "viewer/",
    "schema": "reference/schemas/",
    # And more of the kind.
    "step-goes-backwards": "spec/rules/step-goes-backwards/",
    "non-finite-number": "spec/rules/non-finite-number/",
    "op_timing": "spec/toy/v1/op_timing/",
    "run_resume": "spec/toy/v1/run_resume/",
    "durability": "explanation/durability/",
    "fsync power loss": "explanation/durability/",
    "pandas": "how-to/read-with-pandas-polars-duckdb/",
    "adapter protocol": "conformance/PROTOCOL/",
    "exit code": "reference/cli/",
    "watch a live run": "how-to/follow-a-live-run/",
    "write an emitter in another language": "how-to/write-an-emitter/",
    "benchmark": "explanation/speed/",
    "rust": "implementations/rust/",
    "glossary": "glossary/",
    "lock two writers": "spec/writing/",
    "download corpus": "downloads/",
    "hugging face callback": "how-to/log-from-frameworks/",
    "lightning logger": "how-to/log-from-frameworks/",
    "keras callback": "how-to/log-from-frameworks/",
    "migrate from tensorboard": "how-to/come-from-another-tracker/",
    "mlflow": "reference/formats/",
}
"""The page that has to come first, by what is typed."""

ADDRESSES = "[...document.querySelectorAll('.md-search-result__item > a')].map((link) => new URL(link.href).pathname)"


def search(page: Page, query: str) -> None:
    """Open the search of the start page and type *query* once the index is there."""
    page.goto("")
    page.keyboard.press("/")
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile("Type to start searching"))
    # At once, so that no results of a part of it come in between; the search listens to keys.
    page.keyboard.insert_text(query)
    page.keyboard.press("End")


@pytest.mark.parametrize("query", QUERIES)
def test_search_finds(page: Page, query: str) -> None:
    """A question, a rule and a kind lead to their page, which is the first result."""
    search(page, query)
    path = f"/toyspec/{QUERIES[query]}"
    with suppress(Error):
        page.wait_for_function(f"path => {ADDRESSES}[0] === path", arg=path, timeout=5000)
    assert [path] == page.evaluate(ADDRESSES)[:1]


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
