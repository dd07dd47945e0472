"""Every page of the site, in a real browser."""

from __future__ import annotations

from playwright.sync_api import Page


def test_start_page(page: Page) -> None:
    """The start page opens."""
    page.goto("")
    assert "toyspec" in page.title()
