"""The viewer in a browser, over runs that each test makes up."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import shutil
import struct
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.runs_backend import APP, MadeRun, Values, packed
from browser.viewer_pages import Opened, arrived, drawn, falling, sweep, until
from browser.watching import PHONE, Watch

HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\u202e\x1b[2J\'&amp;'


def names(page: Page) -> list[str]:
    """Return the runs in the table from the top."""
    rows = page.locator(".row").all()
    ordered = sorted(rows, key=lambda row: int(row.get_attribute("aria-rowindex") or 0))
    return [row.locator(".name").inner_text().replace("\n", "") for row in ordered]


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


def test_names_stay_beside_columns_far_to_the_right(opened: Opened) -> None:
    """In a table that is wider than a phone the name of a run is seen wherever the table is moved to."""
    page, _ = opened(sweep(3), "#runs", PHONE)
    page.locator(".row").first.wait_for()
    page.locator(".table").evaluate("(table) => table.scrollTo(300, 0)")
    expect(page.locator(".table")).to_have_class(re.compile("is-moved"))
    # A row that is drawn again meanwhile has no place.
    place = "document.querySelector('.row .name').getBoundingClientRect().x"
    page.wait_for_function(f"{place} > 0 && {place} < {PHONE[0] / 2}")


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


def run_with_everything(line: bytes) -> MadeRun:
    """Return a run that has something of each part of its page; its second line is *line*."""
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
    return MadeRun(
        "a/b",
        {"loss": falling(5)},
        {"state": "damaged"},
        detail,
        files={"events.jsonl": b'{"kind":"x"}\n' + line + b"\n{}\n"},
    )


def test_one_run(opened: Opened) -> None:
    """The page of a run shows its findings beside the raw line, its config, samples and files."""
    line = b'{"kind":"step","t":1.0,"step":1,"loss":NaN}'
    page, _ = opened([run_with_everything(line)], f"#run/{quote('a/b', safe='')}")
    expect(page.get_by_text("NaN is not a finite number")).to_be_visible()
    page.get_by_role("button", name="Line 2").click()
    expect(page.locator(".raw")).to_have_text(line.decode())
    for title in ("Config", "Samples", "Notes", "Evaluations", "Distributions", "Operations", "Regions", "Files"):
        expect(page.get_by_role("heading", name=title).first).to_be_visible()
    expect(page.locator(".sample")).to_have_count(2)
    expect(page.locator(".tree").first).to_contain_text("\\u202e\\x1b[2J")
    assert page.evaluate("window.hacked") is None


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
    arrived(page, "#run")
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


@pytest.mark.parametrize(("name", "selected"), [("Select all 2 runs", 2), ("Select live", 1)])
def test_click_that_began_before_a_row_came_is_not_lost(opened: Opened, name: str, selected: int) -> None:
    """What the table redraws while a run grows is what has changed: the boxes stay."""
    runs = [MadeRun("live", {"loss": falling(10)}, {"state": "running"}), MadeRun("other", {"loss": falling(10)})]
    page, made = opened(runs, "#runs")
    page.get_by_label(name).hover()
    page.mouse.down()
    assert until(page, lambda: made.listeners)
    made.grow("live", "loss", [0.5] * 322)
    expect(page.locator(".row", has_text="live")).to_contain_text("332")
    page.mouse.up()
    expect(page.locator(".row.is-selected")).to_have_count(selected)


@pytest.mark.parametrize("size", [(1440, 900), (768, 1024), PHONE], ids=["wide", "tablet", "phone"])
def test_nothing_is_wider_than_the_window(opened: Opened, size: tuple[int, int]) -> None:
    """No view scrolls sideways."""
    page, _ = opened(sweep(12), "#runs", size)
    for place in ("#runs", "#charts", "#compare", f"#run/{quote('sweep/run-0001', safe='')}"):
        page.evaluate("(place) => (location.hash = place)", place)
        arrived(page, place)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], place


def test_frames_of_the_test_back_end_are_aligned() -> None:
    """A frame has a header and columns whose lengths are multiples of 8, as the protocol demands."""
    frame = MadeRun("a", {"loss": [1.0, math.nan]}).frame("loss", "step", (0, 10), 64)
    head, body = struct.unpack_from("<II", frame)
    assert (head % 8, body % 8, len(frame)) == (0, 0, 8 + head + body)
    assert json.loads(frame[8 : 8 + head])["points"] == 2
