"""Asks axe-core what a reader who uses assistive technology cannot use on a page."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import Page

from browser.conftest import need
from browser.serving import ROOT

SCRIPT = ROOT / "reference/viewer/node_modules/axe-core/axe.min.js"

# What a transition shows for a moment, and what a script is about to build, is not what a reader meets.
_SETTLED = """async () => {
  await document.fonts.ready;
  await new Promise((done) => requestIdleCallback(done, {timeout: 10000}));
  for (const each of document.getAnimations()) {
    if (each.effect?.getComputedTiming().endTime === Infinity) each.cancel();
    else each.finish();
  }
}"""
_RUN = "axe.run(document, {resultTypes: ['violations']})"


def need_axe() -> None:
    """Skip the test, with how to get axe-core, if it is not installed."""
    need(shutil.which("npm"), "npm", "apt install npm · brew install node · winget install OpenJS.NodeJS")
    if not SCRIPT.exists():
        pytest.skip("axe-core is not installed (`make viewer` installs it)")


def findings(page: Page) -> list[str]:
    """Return every violation that axe finds on *page* once it is at rest, with its first elements."""
    page.wait_for_load_state("load")
    page.evaluate(_SETTLED)
    page.evaluate(SCRIPT.read_text("utf-8") + "; true")
    return [
        f"{each['id']}: {[node['target'] for node in each['nodes'][:3]]} {each['nodes'][0]['failureSummary']}"
        for each in page.evaluate(_RUN)["violations"]
    ]
