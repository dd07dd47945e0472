"""``make screenshots``: pictures of pages that stand for the rest, wide and on a phone, light and dark.

Whoever changes the look of the site looks at them. Each is named for its page, its width and its scheme.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright

from browser.serving import ROOT, browser_program, built_site, serving
from browser.watching import FLAGS, PHONE, WIDE, Watch

FOLDER = ROOT / "build/screenshots"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

SHOWN = {
    "start": "",
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


def take(watch: Watch, site: Path, wanted: list[str]) -> None:
    """Write the pictures of the pages *wanted*, of all without any."""
    for name, address in SHOWN.items():
        file = site / address / ("" if address.endswith(".html") else "index.html")
        if (wanted and name not in wanted) or not file.exists():
            continue
        for size in (WIDE, PHONE):
            for scheme in SCHEMES:
                page = watch.new_page(size, scheme)
                page.goto(address, wait_until="load")
                height = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
                page.set_viewport_size({"width": size[0], "height": height})
                page.screenshot(path=FOLDER / f"{name}-{size[0]}-{scheme}.png")
                page.context.close()


def main() -> int:
    """Take the pictures of the pages that the arguments name; return 1 if a page made trouble."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    program = browser_program()
    if program is None:
        sys.exit("chromium is not installed (apt install chromium)")
    site = built_site(ROOT / "build/screenshots-site")
    with serving(site, folder="/") as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, chromium_sandbox=False)
        watch = Watch(browser, address)
        take(watch, site, sys.argv[1:])
        browser.close()
    sys.stdout.write(f"{FOLDER.relative_to(ROOT)}: {len(list(FOLDER.glob('*.png')))} pictures\n")
    sys.stderr.writelines(f"{trouble}\n" for trouble in watch.troubles)
    return 1 if watch.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
