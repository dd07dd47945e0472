"""Shows the same 100 runs in TensorBoard and in the viewer, and counts the spikes of one step that each shows.

``nox -s beside_tensorboard -- path/to/bin/tensorboard`` writes two pictures and the counts into
``docs/assets/``. TensorBoard runs with its defaults, over event files that ``toyspec export tensorboard`` makes of the
runs. Counted is what its server sends to its page, which is the most that it can draw; of the viewer, what is on the
canvas.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import toyspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

_RUNS, _STEPS, _SPIKE = 100, 10_000, 9.0
_WAIT_SECONDS = 600.0
_PORT = 6106
_CHART = (976, 568)
_ASSETS = Path(__file__).resolve().parents[3] / "docs/assets"
NAME = "beside-tensorboard"


def write_runs(folder: Path) -> dict[str, int]:
    """Write the runs below *folder*; return the step of the spike of each."""
    planted = {}
    for number in range(_RUNS):
        chance = random.Random(number)
        name, spike = f"run-{number:03}", chance.randrange(200, _STEPS - 200)
        level = chance.uniform(1.5, 2.5)
        run = toyspec.start_run(folder, run_id=name, config={"seed": number}, git=None)
        for step in range(1, _STEPS + 1):
            loss = level + 4 * math.exp(-6 * step / _STEPS) + chance.gauss(0, 0.1)
            run.step(step=step, loss=_SPIKE if step == spike else round(loss, 6))
        run.run_end("completed")
        planted[name] = spike
    return planted


def main() -> int:
    """Make the runs, look at them in both programs, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tensorboard", help="the program of an installed TensorBoard")
    program: str = parser.parse_args().tensorboard
    from playwright.sync_api import sync_playwright

    from browser.serving import browser_program
    from viewer_browser import browsing

    chromium = browser_program()
    if chromium is None:
        sys.exit("chromium is not installed (apt install chromium)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planted = write_runs(folder / "runs")
        toyspec.export_runs("tensorboard", [folder / "runs"], out=folder / "events")
        with sync_playwright() as playwright, browsing(playwright, chromium) as browser:
            here = _seen_in_viewer(browser, folder, planted)
            there, version = _seen_in_tensorboard(browser, program, folder / "events")
    found = {"runs": _RUNS, "steps": _STEPS, "tensorboard": there, "version": version, "toyspec": here}
    (_ASSETS / f"{NAME}.json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(found)
    return 0


def _seen_in_viewer(browser: Browser, folder: Path, planted: dict[str, int]) -> int:
    """Take the picture of the viewer; return how many spikes have 98 % of their height, beside their step."""
    from browser.viewer_pixels import painted, shown
    from viewer_browser import viewing

    colours = [*(f"--run-{number}" for number in range(7)), "--spike"]
    with viewing(folder / "runs", folder / "cache") as server:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{server.url}#charts?focus=loss")
        shown(page, len(planted))
        seen = painted(page, colours)
        middle, top = seen.down(_SPIKE * 0.8), seen.down(_SPIKE)
        tops = [seen.top(seen.across(step), 1) for step in planted.values()]
        _take(page, "viewer", (302, 139))
        page.close()
    return sum(found is not None and (middle - found) / (middle - top) >= 0.9 for found in tops)


def _seen_in_tensorboard(browser: Browser, program: str, events: Path) -> tuple[int, str]:
    """Take the picture of TensorBoard; return how many spikes its server sends, and its version."""
    with _serving(program, events) as address:
        runs = _until_loaded()
        spikes = 0
        for run, tag in runs:
            points = _asked(f"/data/plugin/scalars/scalars?{urlencode({'run': run, 'tag': tag})}")
            spikes += max(value for _, _, value in points) == _SPIKE
        version = str(_asked("/data/environment")["version"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{address}#timeseries")
        page.locator("scalar-card").first.wait_for(timeout=60_000)
        page.get_by_role("button", name="Close side pane").or_(
            page.locator("settings-view .close-button, .settings-close-button")
        ).first.click()
        page.get_by_role("button", name="Toggle full size mode").or_(
            page.locator("button[title='Toggle full size mode']")
        ).first.click()
        page.wait_for_timeout(15_000)
        _take(page, "tensorboard", (270, 204))
        page.close()
    return spikes, version


def _take(page: Page, name: str, corner: tuple[int, int]) -> None:
    """Write the picture of the chart, which starts at *corner* of the window, without the list of runs beside it."""
    clip = {"x": corner[0], "y": corner[1], "width": _CHART[0], "height": _CHART[1], "scale": 1}
    options = {"format": "webp", "quality": 80, "clip": clip}
    shot = page.context.new_cdp_session(page).send("Page.captureScreenshot", options)
    (_ASSETS / f"{NAME}-{name}.webp").write_bytes(base64.b64decode(shot["data"]))


def _until_loaded() -> list[tuple[str, str]]:
    """Return run and tag of every curve of the loss, once the server has read all steps of all runs."""
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end:
        tags = _asked("/data/plugin/scalars/tags")
        found = [(run, tag) for run, of_run in tags.items() for tag in of_run if tag in {"loss", "train/loss"}]
        if len(found) == _RUNS and all(_last_step(*each) == _STEPS for each in found):
            return found
        time.sleep(3)
    raise TimeoutError(f"TensorBoard has not read the runs after {_WAIT_SECONDS} s")


def _last_step(run: str, tag: str) -> int:
    points = _asked(f"/data/plugin/scalars/scalars?{urlencode({'run': run, 'tag': tag})}")
    return int(points[-1][1])


@contextmanager
def _serving(program: str, events: Path) -> Iterator[str]:
    command = [program, "--logdir", str(events), "--port", str(_PORT), "--host", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{_PORT}/"
    try:
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            try:
                _asked("/data/environment")
                break
            except OSError:
                time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait()


def _asked(path: str) -> Any:
    """Return what TensorBoard's server answers to *path*; raises OSError while it does not listen."""
    with closing(HTTPConnection("127.0.0.1", _PORT, timeout=60)) as connection:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())


if __name__ == "__main__":
    sys.exit(main())
