"""The viewer in a browser, over runs that each test makes up."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from browser.viewer_pages import MadeRun, Opened, falling, sweep, until
from browser.watching import PHONE


def names(page: Page) -> list[str]:
    """Return the runs in the table from the top."""
    rows = page.locator(".row").all()
    ordered = sorted(rows, key=lambda row: int(row.get_attribute("aria-rowindex") or 0))
    return [row.locator(".name").inner_text().replace("\n", "") for row in ordered]


def test_table_filters_and_sorts(opened: Opened) -> None:
    """An expression leaves the runs that meet it, a header sorts them, and both are in the address."""
    page, _ = opened(sweep(40), "#runs")
    expect(page.locator(".bar .count")).to_have_text("40 runs")
    page.get_by_label("Filter runs").fill("lr < 1e-2 and val/acc > .7 and tag = even")
    expect(page.locator(".bar .count")).to_have_text("6 of 40 runs")
    page.get_by_role("columnheader", name="best loss").get_by_role("button").click()
    assert names(page) == [f"sweep/run-{number:04}" for number in (18, 22, 26, 30, 34, 38)]
    page.get_by_role("columnheader", name="best loss").get_by_role("button").click()
    assert names(page)[0] == "sweep/run-0038"
    expect(page).to_have_url(re.compile(r"sort=-best.loss"))
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    expect(page.locator(".bar .count")).to_have_text("6 of 40 runs")
    assert names(page)[0] == "sweep/run-0038"


def test_table_by_keyboard(opened: Opened) -> None:
    """Rows are selected, extended and opened without a pointer."""
    page, _ = opened(sweep(10), "#runs?sort=name")
    page.locator(".row").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator(".bar .count")).to_have_text("10 runs, 3 selected")
    expect(page).to_have_url(re.compile("sweep%2Frun-0001,sweep%2Frun-0002,sweep%2Frun-0003"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="run-0003")).to_be_visible()
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    expect(page.locator(".bar .count")).to_have_text("10 runs")


def test_names_stay_beside_columns_far_to_the_right(opened: Opened) -> None:
    """In a table that is wider than a phone the name of a run is seen wherever the table is moved to."""
    page, _ = opened(sweep(3), "#runs", PHONE)
    page.locator(".row").first.wait_for()
    page.locator(".table").evaluate("(table) => table.scrollTo(300, 0)")
    expect(page.locator(".table")).to_have_class(re.compile("is-moved"))
    # A row that is drawn again meanwhile has no place.
    place = "document.querySelector('.row .name').getBoundingClientRect().x"
    page.wait_for_function(f"{place} > 0 && {place} < {PHONE[0] / 2}")


def test_compare_marks_the_best_and_what_differs(opened: Opened) -> None:
    """The lowest loss is marked, and settings that are the same are left out."""
    runs = sweep(3)
    for run in runs:
        run.start["config"]["fused"] = True
    page, _ = opened(runs, "#compare")
    expect(page.locator("tr", has_text="loss").locator(".is-best")).to_have_text("1.25 best")
    expect(page.locator(".compare").last).not_to_contain_text("fused")
    page.get_by_label("Show those that are the same").check()
    expect(page.locator(".compare").last).to_contain_text("fused")


@pytest.mark.parametrize(("name", "selected"), [("Select all 2 runs", 2), ("Select live", 1)])
def test_click_that_began_before_a_row_came_is_not_lost(opened: Opened, name: str, selected: int) -> None:
    """What the table redraws while a run grows is what has changed: the boxes stay."""
    runs = [MadeRun("live", {"loss": falling(10)}, end=None), MadeRun("other", {"loss": falling(10)})]
    page, made = opened(runs, "#runs")
    page.get_by_label(name).hover()
    page.mouse.down()
    assert until(page, lambda: made.streams)
    made.grow("live", [0.5] * 322)
    expect(page.locator(".row", has_text="live")).to_contain_text("332")
    page.mouse.up()
    expect(page.locator(".row.is-selected")).to_have_count(selected)
