"""No text of a log is run or becomes an element: in the viewer of a server and of a folder, the report, the checker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.checker_page import opened, pick_folder, status
from browser.hostile_runs import hostile, write_runs
from browser.viewer_pages import arrived, drawn
from browser.watching import Watch
from view_client import served

_FOREIGN = """() => {
    const told = (element) => [...element.attributes].map(({name, value}) => `${name}=${value}`).join(" ");
    const all = [...document.querySelectorAll("script, iframe, object, embed, img, a, [autofocus]")];
    const found = all.filter((element) =>
        element.hasAttribute("onerror") || element.hasAttribute("onfocus") || element.getAttribute("src") === "x"
        || /^\\s*javascript:/i.test(element.getAttribute("href") ?? "")
        || (element.localName === "script" && element.textContent.includes("window.hacked"))
            && element.type !== "text/plain" && !element.type.includes("json"));
    const isWide = document.documentElement.scrollWidth > innerWidth;
    const hasControls = /[\\u202e\\x1b]/.test(document.body.innerText);
    return {hacked: window.hacked ?? null, isWide, hasControls,
        elements: found.map((element) => `${element.localName} ${told(element)}`)};
}"""
_OPEN_ALL = """() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    const lines = [...document.querySelectorAll("button")].filter(({textContent}) => textContent.startsWith("Line"));
    for (const button of lines) button.click();
}"""
NOTHING: dict[str, object] = {"hacked": None, "isWide": False, "hasControls": False, "elements": []}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder of two runs that have markup in every place."""
    folder = tmp_path / "runs"
    write_runs(folder)
    return folder


def walked(page: Page, runs: list[str], address: str = "") -> dict[str, object]:
    """Return what is foreign in each view of the viewer at *address*, after all that can be opened was opened."""
    found: dict[str, object] = {}
    drawn(page)
    views = ("#charts", "#runs", "#compare", "#charts?by=group", "#charts?color=group", "#charts?focus=loss")
    for place in (*views, *(f"#run/{quote(run, safe='')}" for run in runs)):
        page.goto(address + place)
        arrived(page, place)
        page.evaluate(_OPEN_ALL)
        for overlay in page.locator(".chart-overlay:visible").all()[:3]:
            overlay.hover(force=True)
        page.wait_for_timeout(150)
        found[place[:40]] = page.evaluate(_FOREIGN)
    return found


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    """Yield a list of watches, which are closed and must have seen nothing."""
    some: list[Watch] = []
    yield some
    for watch in some:
        watch.close()
    assert [] == [trouble for watch in some for trouble in watch.troubles]


def test_viewer_over_its_server(browser: Browser, root: Path, watches: list[Watch]) -> None:
    """Every view of `toyspec view` shows the markup as text."""
    with ExitStack() as stack:
        client = stack.enter_context(served(root))
        runs = list(client.settled_rows())
        assert 2 == len(runs)
        watches.append(Watch(browser, f"http://127.0.0.1:{client.server.port}/"))
        page = watches[-1].new_page()
        stack.callback(page.close)  # before the server ends: the page would ask for changes again
        page.goto("#charts")
        found = walked(page, runs)
        page.goto(f"#run/{quote(runs[0], safe='')}")
        expect(page.locator("#toyspec-viewer")).to_contain_text("push('error')")
        assert dict.fromkeys(found, NOTHING) == found


def test_report(browser: Browser, root: Path, tmp_path: Path, watches: list[Watch]) -> None:
    """A report shows the markup as text, and so does its table in Markdown where HTML is allowed."""
    file = tmp_path / "report.html"
    subprocess.run([sys.executable, "-m", "toyspec", "report", str(root), "-o", str(file)], check=True)
    watches.append(Watch(browser, tmp_path.as_uri()))
    page = watches[-1].new_page()
    page.goto(file.as_uri() + "#charts")
    drawn(page)
    runs = page.evaluate("[...document.querySelectorAll('.row')].map((row) => row.dataset.run ?? '').filter(Boolean)")
    found = walked(page, runs, file.as_uri())
    assert dict.fromkeys(found, NOTHING) == found


def test_folder_viewer(browser: Browser, site: Path, root: Path, watches: list[Watch]) -> None:
    """The viewer of the site, which reads the folder in the page, shows the markup as text."""
    file = site / "assets/checker/toyspec-viewer.html"
    watches.append(Watch(browser, file.as_uri()))
    page = watches[-1].new_page()
    page.goto("")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(root)
    found = walked(page, [path.name for path in sorted(root.iterdir())], file.as_uri())
    expect(page.locator("#toyspec-viewer")).to_contain_text("push('")
    assert dict.fromkeys(found, NOTHING) == found


def test_checker_page(page: Page, root: Path) -> None:
    """The page "Check a log" shows the markup as text."""
    opened(page)
    pick_folder(page, root)
    status(page)
    page.evaluate(_OPEN_ALL)
    assert NOTHING == page.evaluate(_FOREIGN)
    expect(page.locator("main")).to_contain_text("push('")


def test_what_runs_is_seen(browser: Browser) -> None:
    """The measure finds markup that became elements, and that ran."""
    page = browser.new_page()
    page.goto("about:blank")
    page.evaluate("text => { document.body.innerHTML = text; }", hostile("here"))
    page.wait_for_function("window.hacked?.length")
    assert 3 == len(page.evaluate(_FOREIGN)["elements"])
