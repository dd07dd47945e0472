"""``nox -s screenshots``: pictures of pages that stand for the rest and of the viewer, wide and narrow, light and dark.

Whoever changes the look of the site or of the viewer looks at them. Each is named for its page, width and scheme.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

from browser.serving import ROOT, browser_program, built_site, serving
from browser.viewer_screens import REPORT, SCREENS, SIZES, Screens, serving_views
from browser.watching import FLAGS, PHONE, WIDE, Watch

FOLDER = ROOT / "build/screenshots"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

SHOWN = {
    "start": "",
    "see": "viewer/",
    "tutorial": "tutorial/",
    "how-to": "how-to/check-in-ci/",
    "specification": "spec/",
    "kind": "spec/toy/v1/run_start/",
    "rules": "spec/rules/",
    "rule": "spec/rules/step-goes-backwards/",
    "reading": "spec/reading/",
    "cli": "reference/cli/",
    "python": "reference/python/",
    "conformance": "reference/conformance/",
    "requirements": "requirements/",
    "design": "explanation/design/",
    "crashes": "explanation/crashes/",
    "speed": "explanation/speed/",
    "check": "check/",
    "missing": "404.html",
}

TALLEST = 6000
"""Where a picture of a long page is cut off, in pixels."""

DRAWING_MS = 600
"""How long the curves of the viewer may take to arrive after its page shows."""


def take(watch: Watch, site: Path, wanted: list[str]) -> None:
    """Write the pictures of the pages *wanted*, of all without any."""
    for name, address in SHOWN.items():
        file = site / address / ("" if address.endswith(".html") else "index.html")
        if (not wanted or name in wanted) and file.exists():
            for size in (WIDE, PHONE):
                take_page(watch, name, address, size)


def take_viewer(watch: Watch, screens: Screens, wanted: list[str]) -> None:
    """Write the pictures of those of *screens* that are *wanted*, of all without any."""
    for name, (address, settled) in screens.items():
        if not wanted or name in wanted:
            for size in SIZES:
                take_page(watch, name, address, size, settled=settled)


def take_page(watch: Watch, name: str, address: str, size: tuple[int, int], *, settled: str = "body") -> None:
    """Write a picture in each scheme, once the page shows what *settled* selects."""
    for scheme in SCHEMES:
        page = watch.new_page(size, scheme)
        page.goto(address, wait_until="load")
        page.locator(settled).first.wait_for()
        height = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
        page.set_viewport_size({"width": size[0], "height": height})
        if settled != "body":
            page.wait_for_timeout(DRAWING_MS)
        page.screenshot(path=FOLDER / f"{name}-{size[0]}-{scheme}.png")
        page.context.close()


def main() -> int:
    """Take the pictures of the pages that the arguments name; return 1 if a page made trouble."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    program = browser_program()
    if program is None:
        sys.exit("chromium is not installed (apt install chromium)")
    viewer = SCREENS | REPORT
    wanted = [name for each in sys.argv[1:] for name in (viewer if each == "viewer" else [each])]
    with ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, chromium_sandbox=False)
        watches = []
        if not wanted or not SHOWN.keys().isdisjoint(wanted):
            site = built_site(ROOT / "build/screenshots-site")
            watches.append(Watch(browser, stack.enter_context(serving(site, folder="/"))))
            take(watches[-1], site, wanted)
        if not wanted or not viewer.keys().isdisjoint(wanted):
            addresses = stack.enter_context(serving_views(ROOT / "build/screenshots-runs"))
            for address, screens in zip(addresses, (SCREENS, REPORT), strict=True):
                watches.append(Watch(browser, address))
                take_viewer(watches[-1], screens, wanted)
        browser.close()
    troubles = [trouble for watch in watches for trouble in watch.troubles]
    sys.stdout.write(f"{FOLDER.relative_to(ROOT)}: {len(list(FOLDER.glob('*.png')))} pictures\n")
    sys.stderr.writelines(f"{trouble}\n" for trouble in troubles)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
