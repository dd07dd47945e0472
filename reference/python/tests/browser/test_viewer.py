"""The viewer in a browser, over runs that each test makes up."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.conftest import need
from browser.runs_backend import APP, Made, MadeRun, Values, packed, serving_runs
from browser.serving import ROOT
from browser.watching import PHONE, Watch

HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\u202e\x1b[2J\'&amp;'

Opened = Callable[..., tuple[Page, Made]]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Return a function that serves runs and opens the viewer at a hash; problems on the page fail the test."""
    closing: list[Any] = []
    watches: list[Watch] = []

    def start(runs: Sequence[MadeRun], place: str = "", size: tuple[int, int] = (1280, 900)) -> tuple[Page, Made]:
        serving = serving_runs(runs)
        address, made = serving.__enter__()
        closing.append(serving)
        watch = Watch(browser, address)
        watches.append(watch)
        page = watch.new_page(size)
        page.goto(place)
        return page, made

    yield start
    for watch in watches:
        watch.close()
    for serving in closing:
        serving.__exit__(None, None, None)
    assert [] == [trouble for watch in watches for trouble in watch.troubles]


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


def names(page: Page) -> list[str]:
    """Return the runs in the table from the top."""
    rows = page.locator(".row").all()
    ordered = sorted(rows, key=lambda row: int(row.get_attribute("aria-rowindex") or 0))
    return [row.locator(".name").inner_text().replace("\n", "") for row in ordered]


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
            const [x, y, z, a] = data.subarray(4 * at, 4 * at + 4);
            const isSame = a > 30 && Math.abs(x - r) + Math.abs(y - g) + Math.abs(z - b) < distance;
            if (isSame) found.push([at % width, Math.floor(at / width)]);
        }
        return found;
    }"""
    found: list[list[int]] = page.evaluate(script, [colour, distance])
    return found


def drawn(page: Page) -> None:
    """Wait until the first chart shows its curves."""
    expect(page.locator(".chart-overlay").first).to_have_attribute("aria-label", re.compile(r" [1-9]\S* runs?\."))
    page.wait_for_timeout(200)


def test_table_filters_and_sorts(opened: Opened) -> None:
    """An expression leaves the runs that meet it, a header sorts them, and both are in the address."""
    page, _ = opened(sweep(40), "#runs")
    expect(page.locator(".bar .count")).to_have_text("40 runs")
    page.get_by_label("Filter runs").fill("lr < 1e-2 and val/acc > .7 and tag = even")
    expect(page.locator(".bar .count")).to_have_text("6 of 40 runs")
    page.get_by_role("columnheader", name="best loss").get_by_role("button").click()
    assert names(page) == [f"sweep/run-{number:04}" for number in (18, 22, 26, 30, 34, 38)]
    page.get_by_role("columnheader", name="best loss").get_by_role("button").click()
    assert names(page)[0] == "sweep/run-0038"
    expect(page).to_have_url(re.compile(r"sort=-best.loss"))
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    expect(page.locator(".bar .count")).to_have_text("6 of 40 runs")
    assert names(page)[0] == "sweep/run-0038"


def test_filter_that_cannot_be_read_is_explained(opened: Opened) -> None:
    """The place and the cause are shown, and the table stays."""
    page, _ = opened(sweep(3), "#runs")
    page.get_by_label("Filter runs").fill("lr <")
    expect(page.locator(".filter-error")).to_have_text("At character 5: a value was expected after <, found the end")
    expect(page.locator(".row")).to_have_count(3)


def test_table_by_keyboard(opened: Opened) -> None:
    """Rows are selected, extended and opened without a pointer."""
    page, _ = opened(sweep(10), "#runs?sort=name")
    page.locator(".row").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator(".bar .count")).to_have_text("10 runs, 3 selected")
    expect(page).to_have_url(re.compile("sweep%2Frun-0001,sweep%2Frun-0002,sweep%2Frun-0003"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="run-0003")).to_be_visible()
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    expect(page.locator(".bar .count")).to_have_text("10 runs")


def test_ten_thousand_runs(opened: Opened) -> None:
    """Only rows that are seen exist, and the last one is one key away."""
    runs = [MadeRun(f"r{number:05}", {"loss": [1.0]}) for number in range(10_000)]
    page, _ = opened(runs, "#runs?sort=name")
    expect(page.locator(".bar .count")).to_have_text("10\u202f000 runs")
    assert page.locator(".row").count() < 80
    page.keyboard.press("End")
    expect(page.get_by_text("r09999")).to_be_visible()
    frames = page.evaluate(
        """async () => {
            const table = document.querySelector(".table"), times = [];
            for (let at = 0; at < 60; at++) {
                const began = performance.now();
                table.scrollTop = at * 5000;
                await new Promise(requestAnimationFrame);
                await new Promise((resolve) => setTimeout(resolve));
                times.push(performance.now() - began);
            }
            return times.sort((a, b) => a - b);
        }"""
    )
    assert frames[30] < 250


def test_spike_of_one_step_is_drawn(opened: Opened) -> None:
    """The highest of 100,000 values reaches the top of the chart, whatever the number of pixels."""
    values = [1.0] * 100_000
    values[54_321] = 9.0
    page, made = opened([MadeRun("spiky", {"loss": values})], "#charts")
    drawn(page)
    heights = [point[1] for point in pixels(page, "--run-0", 300)]
    assert max(heights) - min(heights) > 120
    assert all("buckets=" in request for request in made.requests)


def test_values_that_are_not_finite_are_marked(opened: Opened) -> None:
    """A NaN leaves a gap in the curve and a cross below it, and the reading names it."""
    values = [2.0] * 50 + [math.nan] * 5 + [1.0] * 45
    page, _ = opened([MadeRun("nan", {"loss": values})], "#charts")
    drawn(page)
    drawn_points = pixels(page, "--run-0")
    lowest = max(point[1] for point in drawn_points)
    width = page.locator(".chart-canvas").evaluate("(canvas) => canvas.clientWidth")
    crosses = [point for point in drawn_points if point[1] > lowest - 7]
    assert 0.4 < (crosses[0][0] - 58) / width < 0.6
    box = page.locator(".chart-overlay").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + 58 + (box["width"] - 72) * 0.52, box["y"] + 100)
    expect(page.locator(".tooltip-lost")).to_have_text("not finite")


def test_zoom_reaches_single_points(opened: Opened) -> None:
    """A drag asks for a range of every chart, down to raw points; Escape shows everything."""
    page, made = opened([MadeRun("long", {"loss": falling(50_000)})], "#charts")
    drawn(page)
    box = page.locator(".chart-overlay").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + 200, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 203, box["y"] + 90)
    page.mouse.move(box["x"] + 208, box["y"] + 90)
    page.mouse.up()
    page.wait_for_url("**zoom=**")
    page.wait_for_timeout(300)
    assert "from=" in made.requests[-1]
    page.locator(".chart-overlay").first.focus()
    page.keyboard.press("+")
    page.wait_for_timeout(500)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#announcement")).to_contain_text("long 1.0")
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("zoom"))


def test_live_run_grows(opened: Opened) -> None:
    """New points are shown without a reload, soon after they are reported."""
    page, made = opened([MadeRun("live", {"loss": falling(10)}, {"state": "running"})], "#charts")
    drawn(page)
    page.wait_for_timeout(300)
    asked = len(made.requests)
    made.grow("live", "loss", [0.5] * 10)
    expect(page.locator(".chart .unseen").first).to_contain_text("0.5")
    assert len(made.requests) > asked


def test_one_run(opened: Opened) -> None:
    """The page of a run shows its findings beside the raw line, its config, samples and files."""
    line = b'{"kind":"step","t":1.0,"step":1,"loss":NaN}'
    finding = {
        "rule": "non-finite-number",
        "severity": "error",
        "file": "events.jsonl",
        "line": 2,
        "offset": 50,
        "pointer": "/loss",
    }
    detail = {
        "config": {"optim": {"lr": 0.1}, "text": HOSTILE},
        "findings": [finding | {"message": "NaN is not a finite number", "help": "write null"}],
        "samples": [
            {"t": 1.0, "step": step, "prompt": "Once", "text": f"upon {step}", "line": step} for step in (1, 2, 3)
        ],
        "notes": [{"t": 1.0, "step": 1, "text": "a note", "line": 3}],
        "evaluations": [{"t": 1.0, "step": 1, "name": "val", "loss": 2.5, "extra": {"acc": 0.5}, "line": 4}],
        "histograms": [
            {
                "kind": "grad",
                "name": "w",
                "records": [{"t": 1.0, "step": 1, "min": -1, "max": 1, "histogram": [1] * 32, "line": 5}],
            }
        ],
        "op_timings": [{"t": 1.0, "step": 1, "buckets": {"matmul": 900, "norm": 100}, "line": 6}],
        "regions": [{"region": "train", "from": 0.0, "to": None, "depth": 0}],
        "files": [{"path": "events.jsonl", "bytes": 90}],
    }
    run = MadeRun(
        "a/b",
        {"loss": falling(5)},
        {"state": "damaged"},
        detail,
        files={"events.jsonl": b'{"kind":"x"}\n' + line + b"\n{}\n"},
    )
    page, _ = opened([run], f"#run/{quote('a/b', safe='')}")
    expect(page.get_by_text("NaN is not a finite number")).to_be_visible()
    page.get_by_role("button", name="Line 2").click()
    expect(page.locator(".raw")).to_have_text(line.decode())
    for title in ("Config", "Samples", "Notes", "Evaluations", "Distributions", "Operations", "Regions", "Files"):
        expect(page.get_by_role("heading", name=title).first).to_be_visible()
    expect(page.locator(".sample")).to_have_count(2)
    expect(page.locator(".tree").first).to_contain_text("\\u202e\\x1b[2J")
    assert page.evaluate("window.hacked") is None


def test_line_behind_a_point(opened: Opened) -> None:
    """A click on an enlarged curve shows the line of the log that it comes from."""
    run = MadeRun("a", {"loss": [2.0] * 9}, files={"events.jsonl": b'{"kind":"step","t":1}\n' * 3})
    page, _ = opened([run], "#charts?focus=loss")
    drawn(page)
    page.locator(".chart-overlay").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".chart-line")).to_contain_text("a, events.jsonl, line 2")
    expect(page.locator(".chart-line .raw")).to_have_text('{"kind":"step","t":1')


def test_compare_marks_the_best_and_what_differs(opened: Opened) -> None:
    """The lowest loss is marked, and settings that are the same are left out."""
    runs = sweep(3)
    for run in runs:
        run.row["config"]["fused"] = True
    page, _ = opened(runs, "#compare")
    expect(page.locator("tr", has_text="loss").locator(".is-best")).to_have_text("1.25 best")
    expect(page.locator(".compare").last).not_to_contain_text("fused")
    page.get_by_label("Show those that are the same").check()
    expect(page.locator(".compare").last).to_contain_text("fused")


def test_hostile_names(opened: Opened) -> None:
    """Markup, control characters and endless names are shown as text in every view, also 100,000 metrics of a run."""
    curves: dict[str, Values] = {HOSTILE: falling(4), "x" * 10_000: [1.0], "__proto__": [1.0], "": [2.0]}
    row = {
        "name": HOSTILE,
        "group": HOSTILE,
        "tags": [HOSTILE, "t" * 100_000],
        "config": {HOSTILE: HOSTILE, "constructor": "x" * 1_000_000},
    }
    many: dict[str, Values] = {f"m{number}/{number}": [1.0] for number in range(100_000)}
    page, _ = opened([MadeRun(HOSTILE, curves, row), MadeRun("many", many), MadeRun("plain", {"loss": [1.0]})], "#runs")
    for key, heading in (("1", ".row"), ("2", ".chart"), ("3", ".compare")):
        page.keyboard.press(key)
        page.locator(heading).first.wait_for()
    page.keyboard.press("1")
    page.locator(".row", has_text="window.hacked").locator(".name").click()
    page.locator(".chart").first.wait_for()
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#toyspec-viewer :is(img, script)").count() == 0
    assert not {"\u202e", "\x1b"} & set(page.locator("#toyspec-viewer").inner_text())
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_report_needs_no_server(browser: Browser, tmp_path: Path) -> None:
    """A page with its data in it shows them from a file, under a policy that allows nothing but itself."""
    run = MadeRun("a", {"loss": falling(100, end=0.25)})
    listing = {"revision": "1", "complete": True, "root": "runs", "version": "0.1.0", "runs": [run.listed()]}
    header = {"report": 1, "written": "2026-11-22T10:30:00Z", "listing": listing, "details": {"a": run.whole()}}
    data = packed(header, {})
    data += run.frame("loss", "step", (0, 1e9), 50)
    text = base64.b64encode(gzip.compress(data)).decode()
    page_text = (APP / "index.html").read_text("utf-8")
    script = '<script src="app.js"></script>'
    assert script in page_text
    for name in ("app.js", "app.css"):
        shutil.copy(APP / name, tmp_path)
    file = tmp_path / "report.html"
    file.write_text(
        page_text.replace(script, f'<script type="text/plain" id="toyspec-data">{text}</script>{script}').replace(
            "'self'", "file:"
        ),
        "utf-8",
    )
    watch = Watch(browser, tmp_path.as_uri())
    page = watch.new_page()
    page.goto(file.as_uri() + "#run/a")
    drawn(page)
    expect(page.locator(".chart .unseen").first).to_contain_text("a0.30.30.35.25")
    expect(page.get_by_role("heading", name="Metadata")).to_be_visible()
    watch.close()
    assert [] == watch.troubles


@pytest.mark.parametrize("size", [(1440, 900), (768, 1024), PHONE], ids=["wide", "tablet", "phone"])
def test_nothing_is_wider_than_the_window(opened: Opened, size: tuple[int, int]) -> None:
    """No view scrolls sideways."""
    page, _ = opened(sweep(12), "#runs", size)
    for place in ("#runs", "#charts", "#compare", f"#run/{quote('sweep/run-0001', safe='')}"):
        page.evaluate("(place) => (location.hash = place)", place)
        page.wait_for_timeout(250)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], place


def test_many_runs_pan_smoothly(opened: Opened) -> None:
    """A frame over 100 runs of 10,000 points takes 50 ms at most; the limit leaves room for a busy machine."""
    runs = [MadeRun(f"r{number}", {"loss": falling(10_000, end=number)}) for number in range(100)]
    page, _ = opened(runs, "#charts?focus=loss")
    drawn(page)
    times = page.evaluate(
        """async () => {
            const chart = document.querySelector(".chart-overlay"), box = chart.getBoundingClientRect(), times = [];
            const shared = {clientY: box.top + 100, shiftKey: true, button: 0, pointerId: 1, bubbles: true};
            const event = (type, x) => chart.dispatchEvent(new PointerEvent(type, {clientX: box.left + x, ...shared}));
            chart.setPointerCapture = () => undefined;
            event("pointerdown", 300);
            for (let at = 0; at < 30; at++) {
                event("pointermove", 300 + at);
                const began = performance.now();
                await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
                times.push(performance.now() - began);
            }
            event("pointerup", 330);
            return times.sort((a, b) => a - b);
        }"""
    )
    assert times[15] < 200, times


def test_built_files_match_their_sources() -> None:
    """What is committed is what the sources give."""
    need(shutil.which("npm"), "npm", "apt install npm · brew install node · winget install OpenJS.NodeJS")
    done = subprocess.run(
        ["make", "-C", str(ROOT), "viewer", "CI=true"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_frames_of_the_test_back_end_are_aligned() -> None:
    """A frame has a header and columns whose lengths are multiples of 8, as the protocol demands."""
    frame = MadeRun("a", {"loss": [1.0, math.nan]}).frame("loss", "step", (0, 10), 64)
    head, body = struct.unpack_from("<II", frame)
    assert (head % 8, body % 8, len(frame)) == (0, 0, 8 + head + body)
    assert json.loads(frame[8 : 8 + head])["points"] == 2
