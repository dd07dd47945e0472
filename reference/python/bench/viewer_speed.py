"""Measures what the viewer paints, how fast it follows, and what a report takes: ``nox -s bench_viewer``.

The data are those of ``viewer_starts``.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
import sys
import time
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import viewer_runs
from measuring import Row, browser_of, missing, single, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Playwright

_CHARTS, _LIVE, _REPORT, _ALONE = "charts", "live run", "report", "page without a server"
_COMMITS = 100
_MB = 1e6
_HEIGHT = 0.98
_REPOSITORY = Path(__file__).resolve().parents[3]
_WORKER_PROGRAM = _REPOSITORY / "reference/viewer/dist/viewer/bench/speed.js"


def rows(folder: Path, count: int) -> Iterator[Row]:
    """Yield the figures, with *count* steps in a folder of runs; 1,000,000 are those of the goals."""
    program = browser_of(_CHARTS)
    if isinstance(program, Row):
        yield program
        return
    from playwright.sync_api import sync_playwright

    sizes = {name: size for name, size in viewer_runs.Sizes.of(count)._asdict().items() if name != "d"}
    roots = {name.upper(): viewer_runs.write_folder(folder / name, size) for name, size in sizes.items()}
    with sync_playwright() as playwright:
        yield from _pixels(
            playwright, program, {name: (root, sizes[name.lower()]) for name, root in roots.items()}, folder
        )
        yield from _damage(roots["C"], folder)
        yield from _frames(playwright, program, roots, folder)
        yield from _live(playwright, program, folder)
    yield from _report(roots["A"], folder)
    yield _app_size()
    yield from _worker(next(roots["B"].rglob("events.jsonl")))


def _runs_below(root: Path) -> int:
    return sum(1 for _ in root.iterdir())


def _pixels(
    playwright: Playwright, program: str, roots: dict[str, tuple[Path, tuple[int, int]]], folder: Path
) -> Iterator[Row]:
    """Yield how many planted spikes have 98 % of their height beside their step, and how many NaN a mark, by width."""
    from browser.viewer_pixels import painted, shown
    from viewer_browser import browsing, new_page, viewing

    colours = [*(f"--run-{number}" for number in range(7)), "--spike"]
    with browsing(playwright, program) as browser:
        for name, (root, (runs, steps)) in roots.items():
            with viewing(root, folder / f"cache-{name}-0") as server:
                for width, manner in ((800, ""), (1440, "&smooth=0.9"), (2560, ""), (3840, "")):
                    page = new_page(browser)
                    page.set_viewport_size({"width": width, "height": 900})
                    page.goto(f"{server.url}#charts?focus=loss{manner}")
                    shown(page, runs)
                    seen = painted(page, colours)
                    spikes = marked = 0
                    # Nothing but a spike is above half of its height.
                    middle, top = seen.down(viewer_runs.SPIKE / 2), seen.down(viewer_runs.SPIKE)
                    for number in range(runs):
                        spike, lost = viewer_runs.planted_steps(number, steps)
                        found = seen.top(seen.across(spike), 1)
                        spikes += found is not None and (middle - found) / (middle - top) >= _HEIGHT
                        marked += seen.lowest(seen.across(lost), 1) > seen.bottom - 9
                    page.context.close()
                    way = f"{width} pixels{', smoothed' if manner else ''}"
                    yield single(_CHARTS, f"{name}: spikes on the canvas, {way}", f"of {runs}", spikes, least=runs)
                    yield single(_CHARTS, f"{name}: NaN on the canvas, {way}", f"of {runs}", marked, least=runs)


def _frames(playwright: Playwright, program: str, roots: dict[str, Path], folder: Path) -> Iterator[Row]:
    """Yield how long a frame takes while curves are dragged."""
    from viewer_browser import browsing, frame_milliseconds, new_page, viewing

    with browsing(playwright, program, pauses=False) as browser:
        for name, most in (("A", 50), ("B", 16)):
            root = roots[name]
            with viewing(root, folder / f"cache-{name}-0") as server:
                steps = max(row["last_step"] for row in server.runs())
                address = f"{server.url}#charts?focus=loss&zoom={steps // 4},{steps * 3 // 4}"
                times = frame_milliseconds(new_page(browser), address, _runs_below(root))
                yield spread(_CHARTS, f"{name}: frame while panning", "ms", times, most=most)


def _live(playwright: Playwright, program: str, folder: Path) -> Iterator[Row]:
    """Yield how long after its commit a step is on the screen: the 95th percentile."""
    import toyspec
    from viewer_browser import browsing, new_page, until_drawn, viewing

    root, chance = folder / "live", random.Random(5)
    run = toyspec.start_run(root, run_id="live", config={"lr": 0.1})
    for step in range(1, 101):
        run.log({"loss": 2.0}, step=step)
    with browsing(playwright, program) as browser, viewing(root, folder / "cache-live") as server:
        page = new_page(browser)
        page.goto(f"{server.url}#charts")
        until_drawn(page, points=100)
        commits = {}
        for step in range(101, 101 + _COMMITS):
            page.wait_for_timeout(chance.uniform(150, 350))
            run.log({"loss": 2.0 + chance.random()}, step=step)
            commits[step] = time.time()
        drawn = [(int(each["points"]), each["at"] / 1000) for each in until_drawn(page, points=100 + _COMMITS)["drawn"]]
    run.run_end("completed")
    waits = sorted(next(at for points, at in drawn if points >= step) - commits[step] for step in commits)
    most = waits[ceil(0.95 * len(waits)) - 1]
    yield single(_LIVE, "commit to screen, 95 of 100 steps", "ms", most * 1000, most=150)
    yield spread(_LIVE, "commit to screen", "ms", [wait * 1000 for wait in waits])


def _damage(root: Path, folder: Path) -> Iterator[Row]:
    """Yield how many lines two flipped bytes cost."""
    from view_client import frames
    from viewer_browser import viewing

    damaged = folder / "damaged" / "run"
    shutil.copytree(next(root.iterdir()), damaged)
    viewer_runs.flip_two_bytes(damaged / "events.jsonl")
    with viewing(damaged.parent, folder / "cache-damaged") as server:
        server.settle()
        steps = server.runs()[0]["last_step"]
        [(header, _)] = frames(server.get(f"{server.url}api/curve?metric=loss&run=run"))
        yield single(_CHARTS, "lines lost to two flipped bytes", "lines", steps - header["points"], most=1)
        yield single(_CHARTS, "their mark on the curve", "marks", len(header["gaps"]), least=1)


def _report(root: Path, folder: Path) -> Iterator[Row]:
    """Yield the size of a report, and how long it takes."""
    report = folder / "report.html"
    began = time.monotonic()
    command = [sys.executable, "-m", "toyspec", "report", str(root), "-o", str(report)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    yield single(_REPORT, "A: size", "MB", report.stat().st_size / _MB, most=2.2)
    yield single(_REPORT, "A: time", "s", time.monotonic() - began)


def _app_size() -> Row:
    from toyspec.view.server import app_files

    packed = gzip.compress(b"".join(app_files()[name] for name in ("index.html", "app.js", "app.css")), 9, mtime=0)
    return single(_REPORT, "viewer, gzip", "kB", len(packed) / 1000, most=60)


def _worker(stream: Path) -> Iterator[Row]:
    """Yield how fast the page of the site reads a stream by itself, in CPU time."""
    node = shutil.which("node")
    if node is None or not _WORKER_PROGRAM.exists():
        yield missing(_ALONE, "all figures of the worker", "`make viewer` builds its program (apt install npm)")
        return
    done = subprocess.run([node, str(_WORKER_PROGRAM), str(stream), "5"], check=True, capture_output=True)
    found = json.loads(done.stdout)
    speeds = {name: [found["bytes"] / _MB / each for each in times] for name, times in found["seconds"].items()}
    yield spread(_ALONE, "scanner of the drawn columns", "MB/s", speeds["scanner"], least=150)
    yield spread(_ALONE, "checking reader", "MB/s", speeds["checker"], least=60)
    yield spread(_ALONE, "`JSON.parse` of each line", "MB/s", speeds["parse"])
    sections = [each * 1000 for each in found["seconds"]["sections"]]
    yield spread(_ALONE, "100,000 metrics in sections", "ms", sections, most=500)
