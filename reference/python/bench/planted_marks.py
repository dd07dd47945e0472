"""Counts the planted marks that the viewer paints at their places and heights, on the canvas and in what it exports.

In each folder some runs have a step of ``HIGH``, a NaN, a line that cannot be read, and a resumption. The pixels of the
picture say whether each is there: a spike with 98 % of its height, or of that of its tick where the chart has ticks,
at most one pixel from its step, and every other mark at the bottom, at most one pixel from its step. Places without a
mark must have none.
"""

from __future__ import annotations

import json
import random
import sys
from itertools import product
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from measuring import Row, missing, single

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from browser.viewer_pixels import Painted

HIGH = 9.0
_BELOW = 1.8
"""What no value but a spike is above after the first tenth of a run."""
_HEIGHT = 0.98
_MOST_MARKED = 20
"""Runs with each kind of mark."""
_RUNS = {1: 40_000, 10: 10_000, 50: 4000, 100: 3000, 1000: 500}
"""Steps of each run, by the number of runs."""
_WIDTHS = (800, 1440, 2560, 3840)
_SMOOTH = ("", "&smooth=0.95")
_GROUP = ("", "&by=config.optim.name")
_LOG = ("", "&log=x", "&log=y", "&log=xy")
_KINDS = ("spikes", "NaN", "gaps", "resumptions")
_BOTTOM = 9
"""Pixels of the layout at the bottom of a chart that the marks are in, and no curve."""
_FREE = 8
"""Pixels around a place without a mark that have none."""
_SETTLED = """manner => {
    const {dataset} = document.querySelector(".chart-canvas");
    return dataset.manner === manner && dataset.marks === "0";
}"""


class Planted(NamedTuple):
    """A folder of runs, and the steps of what was planted in them."""

    root: Path
    runs: int
    steps: int
    marks: dict[str, list[int]]


class Seen(NamedTuple):
    """How many marks were painted of how many, by kind, and at how many places without one something was painted."""

    found: dict[str, int]
    planted: dict[str, int]
    beside: int


def rows(folder: Path, count: int) -> Iterator[Row]:
    """Yield the figures for every number of runs; below 1,000,000 *count* is the largest number of runs."""
    try:
        from playwright.sync_api import sync_playwright

        from browser.serving import browser_program
    except ImportError:
        yield missing("pixels", "all", "no module playwright")
        return
    program = browser_program()
    if program is None:
        yield missing("pixels", "all", "no chromium (apt install chromium)")
        return
    from viewer_browser import browsing

    with sync_playwright() as playwright, browsing(playwright, program) as browser:
        for runs in (each for each in _RUNS if each <= count):
            planted = plant(folder / f"runs-{runs}", runs)
            for where, seen in _looked_at(browser, planted, folder):
                for kind in _KINDS:
                    name, planned = f"{runs:,}, {where}: {kind}", seen.planted[kind]
                    yield single("pixels", name, f"of {planned:,}", seen.found[kind], least=planned)
                yield single("pixels", f"{runs:,}, {where}: at other places", "marks", seen.beside, most=0)


def plant(root: Path, runs: int) -> Planted:
    """Write *runs* runs below *root*, with a mark of each kind in some of them."""
    steps, chance = _RUNS[runs], random.Random(runs)
    marks: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    marked = min(runs, _MOST_MARKED)
    # Marks are apart, so that none is taken for another one.
    places = [20 + (steps - 40) * at // (4 * marked) for at in range(4 * marked)]
    chance.shuffle(places)
    for number in range(runs):
        own = {kind: places.pop() for kind in _KINDS} if number < marked else {}
        for kind, step in own.items():
            marks[kind].append(step)
        run = root / f"run-{number:04}"
        run.mkdir(parents=True)
        with (run / "events.jsonl").open("w", encoding="ascii") as file:
            file.writelines(_lines(number, steps, own))
    return Planted(root, runs, steps, marks)


def _lines(number: int, steps: int, own: dict[str, int]) -> Iterator[str]:
    chance = random.Random(number)
    start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": f"run-{number:04}"}
    yield json.dumps(start | {"config": {"optim.name": ("adam", "sgd")[number % 2], "seed": number}}) + "\n"
    for step in range(1, steps + 1):
        loss: float | None = round(1.0 + 1.5 / (1 + 10 * step / steps) + chance.gauss(0, 0.04), 6)
        loss = HIGH if step == own.get("spikes") else None if step == own.get("NaN") else loss
        line = json.dumps({"kind": "step", "t": step * 0.125, "step": step, "loss": loss}) + "\n"
        # A gap is at the step before it.
        yield line if step - 1 != own.get("gaps") else line[:12] + "\n"
        if step == own.get("resumptions"):
            yield json.dumps({"kind": "run_resume", "t": step * 0.125, "from_step": step}) + "\n"
    yield json.dumps({"kind": "run_end", "t": steps * 0.125, "reason": "completed"}) + "\n"


def _looked_at(browser: Browser, planted: Planted, folder: Path) -> Iterator[tuple[str, Seen]]:
    from viewer_browser import viewing

    with viewing(planted.root, folder / f"cache-{planted.runs}") as server:
        server.settle()
        address = f"{server.url}#charts?focus=loss"
        ways = len(list(_ways()))
        yield f"canvas, {ways} ways", _sum(_on_canvas(browser, address, planted, width) for width in _WIDTHS)
        for kind in ("PNG", "SVG"):
            yield f"{kind}, 4 ways", _exported(browser, address, planted, kind, folder)


def _ways() -> Iterator[tuple[int, str]]:
    for width, *manner in product(_WIDTHS, _SMOOTH, _GROUP, _LOG):
        yield width, "".join(manner)


def _sum(all_seen: Iterator[Seen]) -> Seen:
    found, planted, beside = dict.fromkeys(_KINDS, 0), dict.fromkeys(_KINDS, 0), 0
    for seen in all_seen:
        for kind in _KINDS:
            found[kind] += seen.found[kind]
            planted[kind] += seen.planted[kind]
        beside += seen.beside
    return Seen(found, planted, beside)


def _on_canvas(browser: Browser, address: str, planted: Planted, width: int) -> Seen:
    from browser.viewer_pixels import painted, shown
    from viewer_browser import new_page

    page = new_page(browser)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address)
    shown(page, planted.runs)
    seen = []
    for manner in (manner for size, manner in _ways() if size == width):
        _look(page, address + manner, planted.runs)
        seen.append(counted(painted(page, _colours()), planted))
        _say_missing(seen[-1], planted, f"{width} {manner}")
    page.context.close()
    return _sum(iter(seen))


def _look(page: Page, address: str, runs: int) -> None:
    from browser.viewer_pixels import shown

    place = address.partition("#")[2]
    page.evaluate("hash => { location.hash = hash; }", place)
    chosen = dict(parse_qsl(place.partition("?")[2]))
    logs = ["true" if axis in chosen.get("log", "") else "false" for axis in "xy"]
    manner = ",".join(["step", chosen.get("smooth", "0"), chosen.get("by", ""), *logs])
    page.wait_for_function(_SETTLED, arg=manner)
    shown(page, runs)


def _exported(browser: Browser, address: str, planted: Planted, kind: str, folder: Path) -> Seen:
    from browser.viewer_pixels import exported, shown
    from viewer_browser import new_page

    page = new_page(browser)
    page.goto(address)
    shown(page, planted.runs)
    seen = []
    for manner in ("", "&smooth=0.95", "&by=config.optim.name", "&log=xy"):
        _look(page, address + manner, planted.runs)
        seen.append(counted(exported(page, folder, f"{kind} image", "of the page"), planted))
        _say_missing(seen[-1], planted, f"{kind} {manner}")
    page.context.close()
    return _sum(iter(seen))


def _colours() -> list[str]:
    return [*(f"--run-{number}" for number in range(7)), "--spike"]


def counted(seen: Painted, planted: Planted) -> Seen:
    """Return how many of the marks are in a picture, and at how many places without one something is painted."""
    found = dict.fromkeys(_KINDS, 0)
    middle, top = seen.down(_BELOW), max(seen.down(HIGH), seen.ratio * seen.plot["box"]["top"])
    for step in planted.marks["spikes"]:
        base = 1.0 + 1.5 / (1 + 10 * step / planted.steps)
        found["spikes"] += seen.reach(seen.across(step), HIGH, _BELOW, base) >= _HEIGHT
    edge = seen.bottom - _BOTTOM * seen.ratio
    for kind in _KINDS[1:]:
        for step in planted.marks[kind]:
            found[kind] += seen.lowest(seen.across(step), 1) > edge
    return Seen(found, {kind: len(planted.marks[kind]) for kind in _KINDS}, _beside(seen, planted, (middle + top) / 2))


def _beside(seen: Painted, planted: Planted, half: float) -> int:
    """Return in how many columns far from every mark one is painted."""
    marks = {kind: [seen.across(step) for step in steps] for kind, steps in planted.marks.items()}
    low = [place for kind in _KINDS[1:] for place in marks[kind]]
    # Gaps and resumptions of few runs are lines over the whole height.
    high = [*marks["spikes"], *low]
    edge, free = seen.bottom - _BOTTOM * seen.ratio, _FREE * seen.ratio
    return sum(
        (min(lines) < half and _is_far(column, high, free))
        or (any(edge < line <= seen.bottom for line in lines) and _is_far(column, low, free))
        for column, lines in seen.columns.items()
        if seen.across(1) <= column <= seen.across(planted.steps)
    )


def _is_far(column: int, places: list[float], free: float) -> bool:
    return all(abs(column + 0.5 - place) > free for place in places)


def _say_missing(seen: Seen, planted: Planted, way: str) -> None:
    if seen.found != seen.planted or seen.beside:
        sys.stderr.write(f"{planted.runs} runs, {way}: {seen.found} of {seen.planted}, {seen.beside} at other places\n")
