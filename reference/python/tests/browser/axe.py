"""Asks axe-core what a reader who uses assistive technology cannot use on a page."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import Page

from browser.conftest import need
from browser.serving import ROOT

SCRIPT = ROOT / "reference/viewer/node_modules/axe-core/axe.min.js"

_RUN = "axe.run(document, {resultTypes: ['violations']})"


def need_axe() -> None:
    """Skip the test, with how to get axe-core, if it is not installed."""
    need(shutil.which("npm"), "npm", "apt install npm · brew install node · winget install OpenJS.NodeJS")
    if not SCRIPT.exists():
        pytest.skip("axe-core is not installed (`make viewer` installs it)")


def findings(page: Page) -> list[str]:
    """Return every violation that axe finds on *page*, with its first elements."""
    page.evaluate(SCRIPT.read_text("utf-8") + "; true")
    return [
        f"{each['id']}: {[node['target'] for node in each['nodes'][:3]]} {each['nodes'][0]['failureSummary']}"
        for each in page.evaluate(_RUN)["violations"]
    ]
