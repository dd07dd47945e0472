"""The pages of the site in a real browser: they load, fit a phone, and can be read in both schemes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.built_pages import addresses_of
from browser.serving import serving
from browser.watching import PHONE, WIDE, Watch

ALIKE = re.compile(r"(?:requirements|spec/1\.\d)/.+")
"""Addresses of pages that one template makes from data, too many to open each."""

EACH = 12
"""Of pages that are alike, every so many is opened."""


def opened(site: Path) -> list[str]:
    """Return the addresses of all pages but those that are alike, and of some of these."""
    addresses = addresses_of(site)
    alike = [address for address in addresses if ALIKE.match(address)]
    return sorted(set(addresses) - set(alike)) + alike[::EACH]


_WIDER = """
() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement) {
      if (box.matches("pre, pre *") && ["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return true;
    }
    return false;
  };
  const found = [...document.querySelectorAll(".md-content *")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1 && !scrolls(element) && !element.closest(".stacked thead");
  });
  const shown = found.slice(0, 3).map((element) => element.outerHTML.slice(0, 120));
  if (document.documentElement.scrollWidth > width) shown.push(`${document.documentElement.scrollWidth} px`);
  return shown;
}
"""
"""Returns the beginning of each element that makes a page wider than its window; code may scroll by itself."""


def test_every_page_loads_and_fits_a_phone(unsearched: Watch, site: Path) -> None:
    """Pages load without an error or a request to another host; nothing but code is wider than 375 pixels."""
    page = unsearched.new_page(PHONE)
    wide = {}
    for address in opened(site):
        page.goto(address)
        wide[address] = page.evaluate(_WIDER)
    assert {} == {address: found for address, found in wide.items() if found}


_SHIFTS = """window.shifts = [];
new PerformanceObserver((list) => shifts.push(...list.getEntries().map((entry) => [
    entry.value, entry.sources.map((source) => source.node?.outerHTML?.slice(0, 80)),
]))).observe({type: "layout-shift", buffered: true});"""


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_moves_while_a_page_loads(watch: Watch, size: tuple[int, int]) -> None:
    """The browser counts no shift of the layout on pages that everyone opens, from first picture to last script."""
    page = watch.new_page(size)
    page.add_init_script(_SHIFTS)
    moved = {}
    for address in ("", "viewer/", "install/", "tutorial/", "check/"):
        page.goto(address, wait_until="load")
        page.wait_for_load_state("networkidle")
        page.evaluate("document.fonts.ready.then(() => new Promise(requestAnimationFrame))")
        moved[address] = [shift for shift in page.evaluate("shifts") if shift[0] > 0.001]
    assert {} == {address: shifts for address, shifts in moved.items() if shifts}


def scheme_of(page: Page) -> str | None:
    """Return the colour scheme that *page* shows, as the theme names it."""
    scheme: str | None = page.locator("body").get_attribute("data-md-color-scheme")
    return scheme


def test_start_page_is_light(watch: Watch) -> None:
    """Who only reads the start page loads neither the theme's script, nor the viewer, nor what the search knows."""
    page = watch.new_page(PHONE)
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
    page.goto("", wait_until="networkidle")
    unwanted = [url for url in sizes if re.search(r"javascripts/|toyspec-viewer|search", url)]
    assert [] == unwanted
    assert len(sizes) <= 20
    assert sum(sizes.values()) <= 350_000
    expect(page.locator('.md-header label[for="__search"]').first).to_be_visible()
    with page.expect_response(re.compile("javascripts/bundle")):
        page.mouse.move(50, 300)


def test_scheme_can_be_chosen(page: Page) -> None:
    """The button goes from the system's scheme to light, to dark and back, and the next page keeps the choice."""
    page.emulate_media(color_scheme="dark")
    page.goto("")
    assert "slate" == scheme_of(page)
    for title, scheme in {"Switch to the light scheme": "default", "Switch to the dark scheme": "slate"}.items():
        page.locator(f'label[title="{title}"]').click()
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", scheme)
    page.emulate_media(color_scheme="light")
    page.goto("spec/")
    assert "slate" == scheme_of(page)
    page.locator('label[title="Follow the system"]').click()
    assert "default" == scheme_of(page)


def test_copied_example_is_the_example(watch: Watch) -> None:
    """The button of an example copies its lines unchanged, however they are broken on a phone."""
    page = watch.new_page(PHONE)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("spec/rules/step-goes-backwards/")
    example = page.locator(".language-jsonl").first
    example.get_by_role("button").first.click()
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert 6 == len(lines)
    assert all(json.loads(line)["kind"] for line in lines)


def test_what_is_not_found(browser: Browser, site: Path) -> None:
    """At the root of a host, an address of no page shows links to the start, the specification and the rules."""
    with serving(site, folder="/") as address:
        watch = Watch(browser, address)
        page = watch.new_page()
        watch.expected.add(f"{address}spec/no/such/page")
        answer = page.goto("spec/no/such/page")
        assert answer is not None
        assert 404 == answer.status
        assert "does not exist" in page.locator("article h1").inner_text()
        links = page.locator("article a").evaluate_all("links => links.map((link) => new URL(link.href).pathname)")
        assert {"/", "/check/", "/spec/", "/spec/rules/", "/reference/cli/"} <= set(links)
        page.get_by_role("link", name="toyspec").first.click()
        page.wait_for_url(address)
        watch.close()
        assert [] == watch.troubles


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    """Serve a page with two boxes that are too wide, and code that scrolls."""
    (tmp_path / "index.html").write_text(
        '<!doctype html><html lang="en"><title>a</title><link rel="icon" href="data:,">'
        '<div class="md-content"><div style="width:400px">wide</div>'
        '<div style="overflow:auto"><p style="width:900px">scrolls</p></div>'
        '<pre style="overflow:auto"><code style="display:block;width:900px">code</code></pre></div>',
        encoding="utf-8",
    )
    with serving(tmp_path) as address:
        yield address


def test_wide_boxes_are_seen(browser: Browser, folder: str) -> None:
    """The measure finds what it is for, and nothing else."""
    watch = Watch(browser, folder)
    page = watch.new_page(PHONE)
    page.goto("")
    # Only code may scroll by itself.
    wide = ['<div style="width:400px">wide</div>', '<p style="width:900px">scrolls</p>']
    assert wide == [box for box in page.evaluate(_WIDER) if box.startswith("<")]
    watch.close()
