"""Long tables can be filtered, and diagrams are as wide as their page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.watching import PHONE, WIDE, Watch

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


def test_filtered_row_leads_to_its_page(page: Page) -> None:
    """From the list of rules, a name that a finding had is found and opened."""
    page.goto("spec/rules/")
    page.get_by_label("Filter").fill("step-skipped")
    page.get_by_role("link", name="step-skipped", exact=True).and_(page.locator("article a:visible")).click()
    expect(page.locator("h1")).to_contain_text("step-skipped")


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
