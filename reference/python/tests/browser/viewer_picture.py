"""``nox -s viewer_picture``: the pictures of the viewer on the site and in the README.

Those of its page are of a made-up sweep. That of the start page is of the example runs, which a click there opens: the
viewer in the file that the site serves, in the size that it has there.
"""

from __future__ import annotations

import base64
import math
import random
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ViewportSize, sync_playwright

import toyspec
from browser.serving import ROOT, browser_program, serving
from browser.watching import FLAGS
from toyspec.testing import ManualClock
from view_client import served

ASSETS = ROOT / "docs/assets"
SELECTED = "sel=" + ",".join(f"llama-{number:03}" for number in range(1, 5))
PICTURES = {
    "viewer.png": ("#charts", ".chart-overlay"),
    "viewer-runs.png": ("#runs", ".row"),
    "viewer-compare.png": (f"#compare?{SELECTED}", ".relations circle"),
    "viewer-run.png": ("#run/llama-001", "#part-config"),
}
"""The view that each picture shows, and what it has when it is complete."""
RATES = (1e-3, 6e-4, 3e-4, 1.5e-4)
STEPS = 2000


EXAMPLES = [f"assets/example-runs/lr-{rate}/events.jsonl" for rate in ("0.02", "0.01", "0.005", "0.001")]
START_SIZES = {"wide": (1216, 664, 1), "narrow": (390, 664, 2)}
"""Width, height, and how many pixels a phone has for one of the page; the height ends below a row of charts."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def take_start(browser: Browser) -> list[str]:
    """Write the pictures of the start page; return their names."""
    names = []
    for (kind, (width, height, dense)), scheme in product(START_SIZES.items(), SCHEMES):
        with serving(ROOT / "docs", folder="/") as address:
            size: ViewportSize = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            linked = "&".join(f"url=../../{example}" for example in EXAMPLES)
            page.goto(f"{address}assets/checker/toyspec-viewer.html#{linked}")
            page.locator(".chart-overlay").first.wait_for()
            page.wait_for_timeout(2000)
            # The host of the files is one of this moment.
            page.evaluate("document.querySelector('.root').textContent = 'example runs'")
            clip = {"x": 0, "y": 0, **size, "scale": dense}
            options = {"format": "webp", "quality": 80 // dense, "clip": clip}
            shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", options)
            names.append(f"viewer-start-{kind}-{scheme}.webp")
            (ASSETS / names[-1]).write_bytes(base64.b64decode(shot["data"]))
            page.close()
    return names


def write_run(root: Path, number: int, rate: float, *, run_id: str | None = None) -> None:
    """Write a run of a sweep below *root*; the second one is still without an end."""
    chance = random.Random(number)
    config = {"lr": rate, "seed": number}
    name = run_id or f"llama-{number:03}"
    clock = ManualClock()
    run = toyspec.start_run(root, run_id=name, arch="llama", config=config, clock=clock)
    for step in range(1, (1300 if number == 2 else STEPS) + 1):
        clock.advance(1.5)
        done = step / STEPS
        warm = min(1.0, step / 100) * 0.5 * (1 + math.cos(math.pi * done))
        loss = 1.9 + 0.25 * number**0.5 + 2.6 * math.exp(-done * 9 * rate**0.25 * 4) + chance.gauss(0, 0.05)
        if step == 950 and number == 1:
            loss += 2.0
        norm = (0.3 + math.exp(-6 * done)) * math.exp(chance.gauss(0, 0.25))
        run.log({"loss": loss, "lr": rate * warm, "grad_norm": norm}, step=step)
        if step % 100 == 0:
            run.log(
                {"val/loss": loss + 0.1, "val/accuracy": 0.74 - 0.12 * (loss - 1.9) + chance.gauss(0, 0.004)}, step=step
            )
    if number != 2:
        run.run_end("completed")


def main() -> int:
    """Write the picture."""
    program = browser_program()
    if program is None:
        sys.exit("chromium is not installed (apt install chromium)")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder, "runs")
        for number, rate in enumerate(RATES, 1):
            write_run(root, number, rate)
        with served(root, Path(folder, "cache")) as client:
            client.settled_rows()
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS, chromium_sandbox=False)
            for name, (view, settled) in PICTURES.items():
                page = browser.new_page(viewport={"width": 1440, "height": 640}, color_scheme="light")
                page.goto(f"http://127.0.0.1:{client.server.port}/{view}")
                page.locator(settled).first.wait_for()
                page.wait_for_timeout(2000)
                page.screenshot(path=ASSETS / name)
                page.close()
            written = [*PICTURES, *take_start(browser)]
            browser.close()
    sys.stdout.write(f"{ASSETS.relative_to(ROOT)}: {', '.join(written)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
