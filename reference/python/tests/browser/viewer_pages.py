"""What tests of the viewer share: runs that are made up, and what a chart shows."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

from playwright.sync_api import Page, expect

from browser.runs_backend import Made, MadeRun

Opened = Callable[..., tuple[Page, Made]]
"""Serves runs and opens the viewer at a hash, in a window of a size."""


def falling(steps: int, *, end: float = 1.0) -> list[float]:
    """Return a loss that falls to *end*."""
    return [end + 5 / (1 + at) for at in range(steps)]


def sweep(count: int, steps: int = 20) -> list[MadeRun]:
    """Return runs that differ in learning rate, seed and final loss."""
    return [
        MadeRun(
            f"sweep/run-{number:04}",
            {"loss": falling(steps, end=1 + number / count), "val/acc": [0.5 + number / count / 2]},
            {
                "config": {"optim.lr": 10.0 ** -(1 + number % 4), "seed": number},
                "tags": ["even"] if number % 2 == 0 else [],
            },
        )
        for number in range(count)
    ]


def pixels(page: Page, colour: str, distance: int = 60) -> list[list[int]]:
    """Return the columns and rows of a chart whose colour is that of a custom property, up to a distance."""
    script = """([name, distance]) => {
        const canvas = document.querySelector(".chart-canvas");
        const copy = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height});
        const pen = copy.getContext("2d", {willReadFrequently: true});
        pen.drawImage(canvas, 0, 0);
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
        const {data, width, height} = pen.getImageData(0, 0, canvas.width, canvas.height);
        const found = [];
        for (let at = 0; at < width * height; at++) {
            const [x, y, z, a] = [data[4 * at], data[4 * at + 1], data[4 * at + 2], data[4 * at + 3]];
            const isSame = a > 30 && Math.abs(x - r) + Math.abs(y - g) + Math.abs(z - b) < distance;
            if (isSame) found.push([at % width, Math.floor(at / width)]);
        }
        return JSON.stringify(found);
    }"""
    # As one text: a list of a hundred thousand places takes half a minute.
    found: list[list[int]] = json.loads(page.evaluate(script, [colour, distance]))
    return found


def until(page: Page, holds: Callable[[], object]) -> bool:
    """Return whether *holds* is true, now or within two minutes: a busy machine draws late."""
    end = time.monotonic() + 120
    while not holds():
        if time.monotonic() > end:
            return False
        page.wait_for_timeout(50)
    return True


def drawn(page: Page) -> None:
    """Wait until the first chart shows its curves."""
    expect(page.locator(".chart-overlay").first).to_have_attribute("aria-label", re.compile(r" [1-9]\S* runs?\."))
    at_rest(page)


def at_rest(page: Page) -> None:
    """Wait until the first chart will not change any more by itself."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.locator(".chart-canvas").first).to_have_attribute("data-busy", "false")


def arrived(page: Page, place: str) -> None:
    """Wait until the view at the hash *place* is there: rows, charts, a comparison, or the whole page of a run."""
    view = place.removeprefix("#").partition("/")[0].partition("?")[0]
    part = {"runs": ".row", "compare": ".compare"}.get(view, ".chart")
    page.locator(f"[data-view={view}] main {part}").first.wait_for()
    expect(page.get_by_text("Loading the rest …")).to_have_count(0)
