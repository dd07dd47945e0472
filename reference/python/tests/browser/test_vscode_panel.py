"""The page of a panel in Visual Studio Code shows what the extension sends it; Chromium plays the editor."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.viewer_pages import drawn
from browser.watching import Watch

EXTENSION = Path(__file__).parents[4] / "reference/vscode"
START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"%s"}\n'
END = '{"kind":"run_end","t":9e5,"reason":"completed"}\n'
WRITE = """
import { readFileSync } from "node:fs";
import viewer from "./built/viewer-page.cjs";
const [script, style] = ["built/page.js", "built/page.css"].map((name) => readFileSync(name, "utf8"));
process.stdout.write(viewer.viewerPage({ script, style, nonce: "abcdefghijklmnopqrst" }));
"""
EDITOR = """
window.sent = [];
window.acquireVsCodeApi = () => ({ postMessage: (message) => window.sent.push(message) });
document.addEventListener("DOMContentLoaded", () => document.body.classList.add("vscode-light"));
// As the editor does: a link within the page scrolls to an element, and is not followed.
window.addEventListener("click", (event) => { if (event.target.closest?.("a")) event.preventDefault(); });
"""


@pytest.fixture(scope="module")
def panel_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a panel as a file."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    if not (EXTENSION / "node_modules/esbuild").exists():
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=EXTENSION, check=True, timeout=300)
    subprocess.run(["node", "build.mjs"], cwd=EXTENSION, check=True, timeout=120)
    page = subprocess.run(
        ["node", "--input-type=module", "-e", WRITE], cwd=EXTENSION, check=True, capture_output=True, timeout=120
    ).stdout
    path = tmp_path_factory.mktemp("panel") / "panel.html"
    path.write_bytes(page)
    return path


@pytest.fixture
def panel(browser: Browser, panel_page: Path) -> Iterator[Page]:
    """Yield the page of a panel that is ready; problems on the page fail the test."""
    watch = Watch(browser, panel_page.as_uri())
    page = watch.new_page()
    page.add_init_script(EDITOR)
    page.goto("")
    assert [{"type": "ready"}] == page.evaluate("sent")
    yield page
    watch.close()
    assert [] == watch.troubles


def send(page: Page, path: str, text: str, at: int = 0) -> None:
    """Send bytes of a file as the extension does."""
    script = """([path, from, text]) => window.postMessage(
        {type: "piece", path, from, bytes: Uint8Array.from(atob(text), (character) => character.charCodeAt(0))})"""
    page.evaluate(script, [path, at, base64.b64encode(text.encode()).decode()])


def show(page: Page, paths: list[str], left_out: list[str], *, is_folder: bool = True) -> None:
    """Send the list of files."""
    message = {"type": "shown", "root": "runs", "isFolder": is_folder, "paths": paths, "leftOut": left_out}
    page.evaluate("message => window.postMessage(message)", message)


def steps(first: int, last: int) -> str:
    """Return the lines of some steps."""
    return "".join(f'{{"kind":"step","t":{n}.5,"step":{n},"loss":{1 + 1 / n}}}\n' for n in range(first, last + 1))


def test_folder_in_a_panel(panel: Page) -> None:
    """Runs are listed, links within the page work, what is left out is named, and the theme is the editor's."""
    for name in ("a", "<b>"):
        send(panel, f"runs/{name}/events.jsonl", START % name + steps(1, 50) + END)
    show(panel, ["runs/a/events.jsonl", "runs/<b>/events.jsonl"], ["runs/c/events.jsonl has 9 bytes"])
    expect(panel.locator(".row")).to_have_count(2)
    expect(panel.get_by_text("Not shown: runs/c/events.jsonl has 9 bytes.")).to_be_visible()
    assert "light" == panel.evaluate("getComputedStyle(document.documentElement).colorScheme")
    panel.evaluate("document.body.className = 'vscode-dark'")
    expect(panel.locator("html")).to_have_attribute("data-theme", "dark")
    assert "dark" == panel.evaluate("getComputedStyle(document.documentElement).colorScheme")
    panel.get_by_role("link", name="a", exact=True).first.click()
    expect(panel.locator("#toyspec-viewer")).to_have_attribute("data-view", "run")
    drawn(panel)


def test_run_that_grows_in_a_panel(panel: Page) -> None:
    """A run goes on where it was when its file grows, is shortened or is replaced."""
    path, begin = "runs/events.jsonl", START % "runs" + steps(1, 10)
    send(panel, path, begin)
    show(panel, [path], [])
    expect(panel.locator("#toyspec-viewer")).to_have_attribute("data-view", "run")
    last = panel.locator("#main")
    expect(last).to_contain_text("torn")
    send(panel, path, steps(11, 20) + END, len(begin))
    show(panel, [path], [])
    expect(last).to_contain_text("complete")
    send(panel, path, steps(11, 12), len(begin))
    show(panel, [path], [])
    expect(last).to_contain_text("torn")


def test_no_run_in_a_panel(panel: Page) -> None:
    """A panel reports that a folder has no run, and shows the run that comes later."""
    show(panel, [], [])
    expect(panel.get_by_text("There is no run here")).to_be_visible()
    send(panel, "runs/x.jsonl", '{"step":1,"loss":2.0}\n{"step":2,"loss":1.0}\n')
    show(panel, ["runs/x.jsonl"], [], is_folder=False)
    drawn(panel)
