"""Gives the tests the site, a server for it, and pages of a real browser that may not fail unnoticed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from browser.serving import browser_program, built_site, serving
from browser.viewer_pages import Made, MadeRun, Opened, Viewed
from browser.watching import FLAGS, WIDE, Watch
from toyspec.view.server import ViewHandler

SECONDS = 120
"""On a busy machine a page of ten thousand runs takes longer than the five seconds that are usual."""

expect.set_options(timeout=SECONDS * 1000)


def need(tool: str | None, name: str, source: str) -> str:
    """Return the path *tool*; without one, skip and say how to get it, or fail in CI, where it has to be there."""
    if tool is not None:
        return tool
    reason = f"{name} is not installed ({source})"
    # Only the Linux runners are set up for the site; elsewhere the package alone is tested.
    if "CI" in os.environ and sys.platform == "linux":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built in strict mode from the present sources."""
    need(shutil.which("make"), "make", "apt install make · xcode-select --install")
    need(shutil.which("npm"), "npm", "apt install npm · brew install node · winget install OpenJS.NodeJS")
    return built_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def server(site: Path) -> Iterator[str]:
    """Yield the address of the start page, which ends in a slash; it lies in a folder of the host."""
    with serving(site) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser that reaches this machine alone.

    It lives as long as one module: its event loop runs in this thread, and other tests fork or want a loop.
    """
    source = "apt install chromium · a Chromium or Google Chrome on the PATH"
    program = need(browser_program(), "chromium", source)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, chromium_sandbox=False)
        yield browser
        browser.close()


@pytest.fixture
def watch(browser: Browser, server: str) -> Iterator[Watch]:
    """Yield a maker of pages; the test fails if one of them reports an error or asks for what is not of the site."""
    watch = Watch(browser, server)
    yield watch
    watch.close()
    assert [] == watch.troubles


@pytest.fixture
def unsearched(browser: Browser, site: Path, tmp_path: Path) -> Iterator[Watch]:
    """Yield a maker of pages like ``watch``, whose search knows nothing: each page would build its index again."""
    index = tmp_path / "over/search/search_index.json"
    index.parent.mkdir(parents=True)
    whole = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    index.write_text(json.dumps(whole | {"docs": []}), encoding="utf-8")
    with serving(site, over=tmp_path / "over") as address:
        watch = Watch(browser, address)
        yield watch
        watch.close()
    assert [] == watch.troubles


@pytest.fixture
def page(watch: Watch) -> Page:
    """Return a page of 1280 by 900 pixels in a fresh context; ``page.goto("")`` leads to the start page."""
    return watch.new_page()


@pytest.fixture
def viewed(browser: Browser) -> Iterator[Viewed]:
    """Yield what serves runs; problems on its pages fail the test."""
    with ExitStack() as stack:
        viewed = Viewed(browser, stack)
        yield viewed
        for watch in viewed.watches:
            watch.close()
    assert [] == [trouble for watch in viewed.watches for trouble in watch.troubles]


@pytest.fixture
def opened(viewed: Viewed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Return a function that writes and serves runs and opens the viewer at a hash."""
    streams: list[ViewHandler] = []
    may_stream = threading.Event()
    may_stream.set()
    messages = ViewHandler._messages

    def noted(handler: ViewHandler) -> Iterable[bytes]:
        may_stream.wait(SECONDS)
        streams.append(handler)
        return messages(handler)

    monkeypatch.setattr(ViewHandler, "_messages", noted)

    def start(runs: Sequence[MadeRun], place: str = "", size: tuple[int, int] = WIDE) -> tuple[Page, Made]:
        made = Made(tmp_path / f"made-{len(viewed.watches)}", streams, may_stream)
        for run in runs:
            run.write(made.root)
        client = viewed.serve(made.root)
        client.settled_rows()
        page = viewed.new_page(client, size)
        page.on("request", lambda each: made.requests.append(each.url) if "/api/curve?" in each.url else None)
        page.goto(place)
        return page, made

    return start
