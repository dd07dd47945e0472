"""The watch over pages sees what goes wrong in them: a test that relies on it could otherwise not fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser.serving import is_fresh, newest_change, serving
from browser.watching import Watch

FINDINGS = {
    "console": '<script>console.error("broken")</script>',
    "uncaught: ": '<script>throw new Error("broken")</script>',
    "request out of the site": '<img src="http://elsewhere.example/a.png">',
    "request failed": '<script src="http://elsewhere.example/a.js"></script>',
    "answer 404": '<link rel="stylesheet" href="missing.css">',
    "request out of the site: http://127.0.0.1": '<img src="/absolute.png">',
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    """Serve a folder with one page for each finding, and one without."""
    head = '<!doctype html><html lang="en"><title>a</title><link rel="icon" href="data:,">'
    for number, markup in enumerate(["", *FINDINGS.values()]):
        (tmp_path / f"{number}.html").write_text(head + markup, encoding="utf-8")
    with serving(tmp_path) as address:
        yield address


def test_site_is_fresh_until_a_source_changes(tmp_path: Path) -> None:
    """A build that is older than one of its sources, or not whole, is not taken for the site."""
    assert not is_fresh(tmp_path)
    last = tmp_path / "sitemap.xml"
    last.touch()
    os.utime(last, (newest_change() + 1,) * 2)
    assert is_fresh(tmp_path)
    os.utime(last, (newest_change() - 1,) * 2)
    assert not is_fresh(tmp_path)


def test_page_without_problems_is_quiet(browser: Browser, folder: str) -> None:
    """A page that asks for nothing makes no trouble."""
    watch = Watch(browser, folder)
    watch.new_page().goto("0.html")
    watch.close()
    assert [] == watch.troubles


@pytest.mark.parametrize("number", range(1, len(FINDINGS) + 1), ids=list(FINDINGS))
def test_problem_is_seen(browser: Browser, folder: str, number: int) -> None:
    """Each way in which a page can fail is noted, with its address or that of what is missing."""
    watch = Watch(browser, folder)
    watch.new_page().goto(f"{number}.html", wait_until="networkidle")
    watch.close()
    begin = list(FINDINGS)[number - 1]
    assert any(begin in trouble for trouble in watch.troubles), watch.troubles
