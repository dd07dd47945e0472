"""axe-core has nothing to say about the pages of the site, wide and light as on a phone and dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from browser.axe import findings, need_axe
from browser.built_pages import addresses_of
from browser.watching import PHONE, WIDE, Watch

ALIKE = re.compile(r"(?:requirements|spec/rules|spec/toy/v1|spec/kaun/v1|spec/1\.\d|implementations)/.+")
"""Addresses of pages that have the same parts as each other: one in so many is asked about."""

EACH = 16


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide light", "phone dark"])
def test_pages_have_no_findings(
    unsearched: Watch, site: Path, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    """No page has a finding of axe, however small."""
    need_axe()
    addresses = addresses_of(site)
    alike = [address for address in addresses if ALIKE.match(address)]
    page = unsearched.new_page(size, scheme)
    found = {}
    for address in sorted({*addresses} - {*alike}) + alike[::EACH]:
        page.goto(address)
        found[address] = findings(page)
    assert {} == {address: problems for address, problems in found.items() if problems}


PAGE = "spec/rules/step-goes-backwards/"


def tab_to(page: Page, selector: str, most: int = 60) -> int:
    """Press Tab until an element that *selector* names has the focus; return how often, at most *most* times."""
    for pressed in range(1, most + 1):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return pressed
    pytest.fail(f"{selector} has no focus after {most} times Tab")


def test_first_stop_skips_to_the_content(page: Page) -> None:
    """Tab shows a link that leads past the navigation; the next stop after it is in the article."""
    page.goto(PAGE)
    assert 1 == tab_to(page, ".md-skip")
    expect(page.locator(".md-skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("Boolean(document.activeElement.closest('article'))")


def test_stops_are_in_the_order_of_the_page(page: Page) -> None:
    """Search, tabs, navigation and article follow each other."""
    page.goto(PAGE)
    for selector in ("input[name=query]", ".md-tabs a", ".md-sidebar--primary a"):
        tab_to(page, selector)
    tab_to(page, "article a, .md-sidebar--secondary a", most=120)


def test_focus_is_visible(page: Page) -> None:
    """What has the focus has an outline."""
    page.goto(PAGE)
    for _ in range(12):
        page.keyboard.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        is_drawn = page.evaluate("document.activeElement.matches('input, .md-search__scrollwrap')")
        assert style != "none" or is_drawn


@pytest.mark.parametrize("key", ["/", "s"])
def test_search_opens_and_closes(page: Page, key: str) -> None:
    """A key opens the search and puts the cursor into it; Escape closes it and gives the page back."""
    page.goto(PAGE)
    is_open = page.locator("#__search")
    page.keyboard.press(key)
    expect(page.locator("input[name=query]")).to_be_focused()
    expect(is_open).to_be_checked()
    expect(page.get_by_role("dialog", name="Search")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("input[name=query]")).not_to_be_focused()
    expect(is_open).not_to_be_checked()


def test_menu_of_a_narrow_window(watch: Watch) -> None:
    """Enter opens the menu and Escape closes it; while it is closed, no stop is in it."""
    page = watch.new_page(PHONE)
    page.goto(PAGE)
    button = page.get_by_role("button", name="Menu")
    menu = page.locator(".md-sidebar--primary")
    expect(button).to_have_attribute("aria-expanded", "false")
    tab_to(page, '.md-header__button[for="__drawer"]')
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(menu).to_be_in_viewport()
    tab_to(page, ".md-sidebar--primary a")
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    expect(menu).not_to_be_in_viewport()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert not page.evaluate("Boolean(document.activeElement.closest('.md-sidebar--primary'))")


SCROLLS = """
[...document.querySelectorAll("article *")].filter((box) =>
  box.scrollWidth > box.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(box).overflowX))
"""


def test_what_scrolls_can_be_reached(watch: Watch) -> None:
    """A table or a block of code that is wider than the page is a stop with a name, so that keys scroll it."""
    page = watch.new_page((760, 900))
    page.goto("reference/conformance/")
    assert page.evaluate(f"{SCROLLS}.length")
    page.wait_for_function(f"{SCROLLS}.every((box) => box.tabIndex === 0)")
    tables = page.locator(".md-typeset__scrollwrap[tabindex]")
    expect(tables.first).to_have_role("region")
    width, height = PHONE
    page.set_viewport_size({"width": width, "height": height})
    expect(tables).to_have_count(0)


def test_copy_takes_commands_without_prompt_and_output(page: Page) -> None:
    """The copy button of a console example has the commands alone."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("")
    page.mouse.move(5, 300)  # the start page loads the theme's script, which adds the buttons, with the first use
    buttons = page.locator(".language-console button[data-clipboard-target]")
    expect(buttons).to_have_count(page.locator(".language-console").count())
    copied = []
    for button in buttons.all():
        button.click()
        copied.append(page.evaluate("navigator.clipboard.readText()"))
    assert "toyspec ls runs" in copied
    assert [] == [text for text in copied if "$" in text or "complete" in text]
