"""Beside each example that is a log stands "check", which opens it in the checker as the page means it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from browser.watching import Watch
from toyspec.core.checker import check_bytes

NOTE = re.compile(r'example profile=(?P<profile>\S+) findings="(?P<findings>[^"]*)"')
FIND = """() => [...document.querySelectorAll(".check-link")].map((link) => {
    let before = link.parentElement.previousSibling;
    while (before && before.nodeType === 3) before = before.previousSibling;
    return [link.getAttribute("href"), before && before.nodeType === 8 ? before.data : ""];
})"""


def example_pages(site: Path) -> list[str]:
    """Return the addresses of the pages of the specification that may show records, from the start page."""
    # Examples of an earlier revision have the findings of that revision.
    pages = sorted(set((site / "spec").rglob("index.html")) - set((site / "spec").glob("1.*/**/index.html")))
    return [
        page.parent.relative_to(site).as_posix() + "/" for page in pages if "kind" in page.read_text(encoding="utf-8")
    ]


def test_examples(unsearched: Watch, site: Path) -> None:
    """Each example of the specification is handed over with the findings that the page states, or without any."""
    page = unsearched.new_page()
    checked = 0
    for address in example_pages(site):
        page.goto(address, wait_until="domcontentloaded")
        for href, note in page.evaluate(FIND):
            fields = parse_qs(urlsplit(href).fragment, strict_parsing=True)
            report = check_bytes(fields["text"][0].encode(), name=fields["name"][0])
            stated = NOTE.match(note.strip())
            found = [f"{finding.rule}@{finding.line}:{finding.pointer}" for finding in report.findings]
            assert (stated["findings"].split() if stated else []) == found, (address, fields["text"])
            assert stated is None or stated["profile"] == (report.profile or "none"), address
            checked += 1
    assert checked > 50


def test_click(page: Page) -> None:
    """A click shows the example with its finding."""
    page.goto("spec/rules/invalid-json/")
    page.get_by_role("link", name="check this example").click()
    expect(page.locator(".tc-status")).to_have_text("1 run: damaged · 1 error")
    expect(page.locator(".tc-finding a")).to_have_text("invalid-json")
