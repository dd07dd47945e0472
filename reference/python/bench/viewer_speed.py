"""Measures the viewer in a headless Chromium: ``make bench-viewer``, on a machine that does nothing else.

Data A is 100 runs of 10,000 steps, B one run of 1,000,000, C 1,000 runs of 500; each step has five numbers. A cold
start has an empty cache of curves, a warm one the cache of the start before. Times begin with the command, while a
blank page waits in the browser. A page of one line of text from the same server is the floor of a warm start.
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
from typing import TYPE_CHECKING, Any, NamedTuple

import viewer_runs
from measuring import Row, missing, single, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, Playwright

    from viewer_browser import Server, Shown

_STARTS, _CHARTS, _LIVE, _REPORT, _ALONE = "first view", "charts", "live run", "report", "page without a server"
_ROUNDS = 3
_COMMITS = 100
_MB = 1e6
_HEIGHT = 0.98
_REPOSITORY = Path(__file__).resolve().parents[3]
_WORKER_PROGRAM = _REPOSITORY / "reference/viewer/dist/viewer/bench/speed.js"


class _Goals(NamedTuple):
    """Most seconds of the starts over one folder; None where there is no goal."""

    table: float | None
    curves: float


_GOALS = {"A": _Goals(0.6, 2.0), "B": _Goals(None, 2.0), "C": _Goals(1.0, 3.0)}
_WARM_SECONDS = 0.5


def rows(folder: Path, count: int) -> Iterator[Row]:
    """Yield every figure of the viewer, with *count* steps in a folder of runs; 1,000,000 are those of its goals."""
    try:
        from playwright.sync_api import sync_playwright

        from browser.serving import browser_program
    except ImportError:
        yield missing(_STARTS, "all figures in a browser", "no module playwright")
        return
    program = browser_program()
    if program is None:
        yield missing(_STARTS, "all figures in a browser", "no chromium (apt install chromium)")
        return
    sizes = viewer_runs.Sizes.of(count)._asdict()
    roots = {name.upper(): viewer_runs.write_folder(folder / name, size) for name, size in sizes.items()}
    with sync_playwright() as playwright:
        kept: list[Row] = []
        yield from _starts(playwright, program, roots, folder, kept)
        yield from kept
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


def _starts(
    playwright: Playwright, program: str, roots: dict[str, Path], folder: Path, kept: list[Row]
) -> Iterator[Row]:
    """Yield what cold and warm starts take, and what they cost over A; add to *kept* what the curves keep."""
    from viewer_browser import browsing

    with browsing(playwright, program) as browser:
        for name, root in roots.items():
            cold, warm, floors, server_sizes = [], [], [], []
            for number in range(_ROUNDS):
                cache = folder / f"cache-{name}-{number}"
                shown, size, found = _start(browser, root, cache, checks=number == 0 and name != "C")
                cold.append(shown)
                server_sizes.append(size)
                kept += found
                warm.append(_start(browser, root, cache)[0])
                floors.append(_text(browser, root, cache))
            yield from _times(name, cold, warm)
            yield spread(_STARTS, f"{name}: a page of one line of text, warm", "s", floors)
            if name == "A":
                yield from _costs(cold, server_sizes)


def _start(browser: Browser, root: Path, cache: Path, *, checks: bool = False) -> tuple[Shown, float, list[Row]]:
    """Return what a start showed and when, the server's memory afterwards, and what its curves kept where asked."""
    from viewer_browser import new_page, show, viewing

    page = new_page(browser)
    with viewing(root, cache) as server:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        shown = show(page, server, _runs_below(root))
        page.context.close()
        server.settle()
        kept = list(_kept(server, root.name.upper(), asked)) if checks else []
        return shown, server.megabytes(), kept


def _text(browser: Browser, root: Path, cache: Path) -> float:
    """Return the seconds from the command until a page without the viewer was painted."""
    from viewer_browser import new_page, show_text, viewing

    page = new_page(browser)
    with viewing(root, cache) as server:
        painted = show_text(page, server)
        page.context.close()
        return painted


def _times(name: str, cold: Sequence[Shown], warm: Sequence[Shown]) -> Iterator[Row]:
    table, curves = _GOALS[name]
    goal: dict[str, Any] = {} if table is None else {"most": table}
    yield spread(_STARTS, f"{name}: address printed, cold", "s", [each.listening for each in cold])
    yield spread(_STARTS, f"{name}: run table, cold", "s", [each.table for each in cold], **goal)
    yield spread(_STARTS, f"{name}: all loss curves, cold", "s", [each.curves for each in cold], most=curves)
    yield spread(_STARTS, f"{name}: run table, warm", "s", [each.table for each in warm], **goal)
    yield spread(_STARTS, f"{name}: all loss curves, warm", "s", [each.curves for each in warm], most=_WARM_SECONDS)


def _costs(cold: Sequence[Shown], server_sizes: Sequence[float]) -> Iterator[Row]:
    yield spread(_STARTS, "A: memory of the server", "MB", server_sizes, most=40)
    yield spread(_STARTS, "A: memory of the page", "MB", [each.heap / _MB for each in cold], most=50)
    yield spread(_STARTS, "A: sent", "MB", [each.sent / _MB for each in cold], most=1.5)


def _kept(server: Server, name: str, asked: Sequence[str]) -> Iterator[Row]:
    """Yield in how many curves that the page asked for the planted spike and the planted NaN are."""
    from view_client import frames

    spikes, marked = set(), set()
    for address in asked:
        if "api/curve?metric=loss" in address:
            for header, columns in frames(server.get(address)):
                if max(columns.get("max") or columns["last"], default=0.0) == viewer_runs.SPIKE:
                    spikes.add(header["run"])
                if sum(columns.get("nan", ())) == 1:
                    marked.add(header["run"])
    runs = len(server.runs())
    yield single(_CHARTS, f"{name}: spikes of one step in answers", f"of {runs}", len(spikes), least=runs)
    yield single(_CHARTS, f"{name}: NaN in answers", f"of {runs}", len(marked), least=runs)


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
