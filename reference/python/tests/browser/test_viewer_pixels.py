"""What is logged is on the canvas: spikes, values that are not finite, gaps and resumptions, at their places."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.viewer_pages import MadeRun, Opened
from browser.viewer_pixels import Painted, exported, painted, shown
from toyspec.view.report import html_report
from view_client import END, START, write_run
from view_client import step as step_line

STEPS = 3000
HIGH = 9.0


class Planted(NamedTuple):
    """Runs of noise, and where each of some has a spike."""

    runs: list[MadeRun]
    steps: dict[str, int]


def planted(count: int, spikes: int) -> Planted:
    """Return *count* runs of which *spikes* have one value of ``HIGH``, each at a step of its own."""
    chance = random.Random(count)
    runs, steps = [], {}
    for number in range(count):
        name = f"run-{number:04}"
        values = [1.0 + 1.5 / (1 + at / 300) + chance.gauss(0, 0.04) for at in range(STEPS)]
        if number < spikes:
            at = 40 + (STEPS - 80) * number // spikes + chance.randrange(60)
            values[at] = HIGH
            steps[name] = at + 1
        config = {"optim": {"name": ("adam", "sgd")[number % 2]}, "seed": number}
        runs.append(MadeRun(name, {"loss": values}, {"config": config}))
    return Planted(runs, steps)


def heights(page: Page, steps: dict[str, int], value: float = HIGH) -> dict[str, float]:
    """Return how much of the height of its spike the marks of each run reach, in columns next to its place."""
    colours = [*(f"--run-{number}" for number in range(7)), "--spike"]
    seen = painted(page, colours)
    return {name: height(seen, step, value) for name, step in steps.items()}


def height(seen: Painted, step: float, value: float) -> float:
    """Return the share of the height from the middle of the curves to *value* that is painted beside *step*."""
    return seen.reach(seen.across(step), value, 1.8, 1.0 + 1.5 / (1 + step / 300))


@pytest.mark.parametrize(
    ("count", "width", "way"),
    [
        (1, 1440, ""),
        (1, 2560, "&smooth=0.95"),
        (1, 800, "&log=xy"),
        (9, 2560, ""),
        (9, 1440, "&smooth=0.95"),
        (30, 1440, "&by=config.optim.name"),
        (30, 1440, "&log=y"),
        (70, 800, ""),
        (70, 1440, "&smooth=0.95"),
        (70, 1440, "&log=x"),
        (70, 2560, "&by=config.optim.name"),
        (70, 3840, ""),
        # Runs beside a selection are one grey area, out of which their spikes are marked.
        (70, 1440, "&sel=run-0069"),
    ],
)
def test_spike_is_painted_at_its_height(opened: Opened, count: int, width: int, way: str) -> None:
    """Each planted value reaches 98 % of its height at its step, with any number of runs and pixels."""
    runs, steps = planted(count, min(count, 20))
    page, _ = opened(runs, f"#charts?focus=loss{way}", (width, 900))
    shown(page, len(runs))
    shares = heights(page, steps)
    assert {} == {name: share for name, share in shares.items() if share < 0.98}


def test_no_curve_hides_a_spike(opened: Opened) -> None:
    """A run whose noise covers the whole chart is painted before the spikes of the others."""
    runs, steps = planted(8, 7)
    chance = random.Random(1)
    runs[-1].curves = {"loss": [chance.uniform(0, 10) for _ in range(STEPS)]}
    page, _ = opened(runs, "#charts?focus=loss", (1440, 900))
    shown(page, len(runs))
    for number, (name, step) in enumerate(steps.items()):
        assert height(painted(page, [f"--run-{number}"]), step, HIGH) > 0.98, name


@pytest.mark.parametrize(("count", "width"), [(1, 800), (30, 2560), (70, 1440)])
def test_nan_gap_and_resumption_are_painted(opened: Opened, count: int, width: int) -> None:
    """Each is marked at its step at the bottom of the chart, for runs that are background too."""
    runs, _ = planted(count, 0)
    runs[-1].records = {900: [b"lost\n"], 1800: [{"kind": "run_resume", "from_step": 1800}]}
    values = runs[-1].curves["loss"]
    runs[-1].curves = {"loss": [*values[:2499], math.nan, *values[2500:]]}
    page, _ = opened(runs, "#charts?focus=loss", (width, 900))
    shown(page, len(runs))
    seen = painted(page, [*(f"--run-{number}" for number in range(7)), "--spike"])
    bottom = seen.bottom
    for step in (900, 1800, 2500):
        assert seen.lowest(seen.across(step), 1) > bottom - 9, step
    assert seen.lowest(seen.across(1350), 8) < bottom - 9


def test_log_axes_show_values_beside_zeros(opened: Opened) -> None:
    """A zero in every bucket leaves the rest of a logarithmic axis, and the first bucket begins at the first step."""
    values = [0.0 if at % 3 == 0 else 10 + math.sin(at / 50) for at in range(STEPS)]
    page, _ = opened([MadeRun("zeros", {"loss": values})], "#charts?focus=loss&log=xy", (1440, 900))
    shown(page, 1)
    # A thin line between two rows of pixels is paler.
    seen = painted(page, ["--run-0"], 180)
    columns = [seen.top(at, 1) for at in range(int(seen.across(1)) + 2, int(seen.across(STEPS)) - 2, 8)]
    assert None not in columns


def test_spike_is_named_and_leads_to_its_line(opened: Opened) -> None:
    """Anywhere on its line a spike among 70 runs says its run; a click on its tick shows the line of its step."""
    runs, steps = planted(70, 5)
    name, step = list(steps.items())[2]
    page, _ = opened(runs, "#charts?focus=loss", (1440, 900))
    shown(page, len(runs))
    seen = painted(page, ["--spike"])
    box = page.locator(".chart-overlay").bounding_box()
    assert box
    top = seen.top(seen.across(step), 1)
    assert top is not None
    for down in (top + 2, (top + seen.down(1.8)) / 2):
        page.mouse.move(box["x"] + 2, box["y"] + 2)
        page.mouse.move(box["x"] + seen.across(step), box["y"] + down)
        expect(page.locator(".tooltip-anomaly")).to_contain_text(f"{name} spike 9")
    page.mouse.click(box["x"] + seen.across(step), box["y"] + seen.bottom + 9)
    expect(page.locator(".chart-line")).to_contain_text(f"{name}: spike 9")


def test_mark_is_narrow_where_buckets_are_wide(opened: Opened) -> None:
    """Above 2,048 pixels a bucket of many runs is wider than a pixel: the place of its spike is asked for."""
    runs, steps = planted(70, 20)
    page, _ = opened(runs, "#charts?focus=loss", (3840, 900))
    shown(page, len(runs))
    page.wait_for_function(_SETTLED)
    seen = painted(page, ["--spike"])
    high = seen.down(0.8 * HIGH)
    columns = {column for column, rows in seen.columns.items() if min(rows) < high}
    places = [seen.across(step) for step in steps.values()]
    assert columns
    assert [] == [column for column in columns if min(abs(column + 0.5 - place) for place in places) > 1.5]


@pytest.mark.parametrize("way", ["", "&smooth=0.95"])
def test_marks_of_a_report_are_in_their_buckets(browser: Browser, tmp_path: Path, way: str) -> None:
    """A report has up to 1,000 buckets of a curve: here 625, each 6 pixels wide."""
    chance = random.Random(7)
    steps, spikes, missing = 20_000, (300, 9001), (120, 15_007)
    values = [1.0 + chance.gauss(0, 0.04) for _ in range(steps)]
    for at in spikes:
        values[at - 1] = HIGH
    lines = [step_line(at, None if at in missing else value) for at, value in enumerate(values, 1)]
    write_run(tmp_path / "runs" / "a", START, *lines, END)
    file = tmp_path / "report.html"
    file.write_text(html_report([str(tmp_path / "runs")], now=0.0)[0], "utf-8")
    context = browser.new_context(viewport={"width": 3840, "height": 900})
    page = context.new_page()
    page.goto(f"{file.as_uri()}#charts?focus=loss{way}")
    shown(page, 1)
    seen = painted(page, ["--run-0"])
    high, edge = seen.down(0.7 * HIGH), seen.bottom - 9
    tall = {column for column, rows in seen.columns.items() if min(rows) < high}
    low = {column for column, rows in seen.columns.items() if any(edge < row <= seen.bottom for row in rows)}
    context.close()
    for planted, found in ((spikes, tall), (missing, low)):
        places = [seen.across(at) for at in planted]
        assert [] == [at for at in found if min(abs(at + 0.5 - place) for place in places) > 12]
        assert all(any(abs(at + 0.5 - place) <= 6 for at in found) for place in places)


_SETTLED = """() => {
    const {marks} = document.querySelector(".chart-canvas").dataset;
    return marks === "0";
}"""


@pytest.mark.parametrize("way", ["", "&smooth=0.95", "&by=config.optim.name", "&log=xy"])
@pytest.mark.parametrize("count", [9, 70])
def test_spike_is_in_exported_pictures(opened: Opened, tmp_path: Path, count: int, way: str) -> None:
    """Each planted value reaches its height at its step in the PNG and in the SVG image, for paper too."""
    runs, steps = planted(count, min(count, 20))
    page, _ = opened(runs, f"#charts?focus=loss{way}", (1440, 900))
    shown(page, len(runs))
    for kind, colours in (("PNG image", "of the page"), ("SVG image", "for paper")):
        seen = exported(page, tmp_path, kind, colours)
        shares = {name: height(seen, step, HIGH) for name, step in steps.items()}
        assert {} == {name: share for name, share in shares.items() if share < 0.98}, kind


def test_export_is_laid_out_for_a_paper(opened: Opened, tmp_path: Path) -> None:
    """Size, font and size of text are chosen, and the names are below the curves in their colours."""
    runs, _ = planted(9, 0)
    page, _ = opened(runs, "#charts?focus=loss", (1440, 900))
    shown(page, len(runs))
    page.get_by_text("Export").click()
    for label, value in (("Size", "One column, 3.5 in"), ("Font", "Serif"), ("Text", "8 px")):
        page.locator(".menu-items").get_by_label(label).select_option(value)
    with page.expect_download() as download:
        page.get_by_text("SVG image").click()
    download.value.save_as(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert 'width="336" height="220"' in text
    assert {"'Times New Roman', Times, serif"} == set(re.findall(r'font-family="([^"]*)"', text))
    assert {"8"} == set(re.findall(r'font-size="([^"]*)"', text))
    legend = re.findall(r'<text x="([^"]*)" y="([^"]*)"[^>]*>(run-000\d)</text>', text)
    assert [run.id for run in runs] == [name for *_, name in legend]
    assert all(float(x) < 300 and 110 < float(y) < 220 for x, y, _ in legend)
