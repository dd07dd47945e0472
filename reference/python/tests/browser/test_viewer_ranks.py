"""The ranks of a run and the run that it was forked from, in the viewer, in a report and in an opened folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.axe import findings, need_axe
from browser.test_viewer_media import png
from browser.viewer_pages import Viewed, arrived, at_rest, line, pixels, until
from browser.watching import Watch
from toyspec.core.reading.run_files import media_file
from toyspec.view.report import html_report

STEPS = 200
SPIKE = 120


def log(directory: Path, name: str, start: dict[str, Any], steps: list[bytes], *, is_ended: bool = True) -> None:
    """Write a stream."""
    directory.mkdir(parents=True, exist_ok=True)
    first = line(0, kind="run_start", schema="toy/v1", run_id=directory.name, **start)
    end = [line(9**6, kind="run_end", reason="completed")] if is_ended else []
    (directory / name).write_bytes(b"".join((first, *steps, *end)))


def step(number: int, loss: float, **more: Any) -> bytes:
    """Return the line of a step."""
    return line(number, kind="step", loss=loss, **more)


@pytest.fixture
def ranked(tmp_path: Path) -> Path:
    """Return a directory with a run of four ranks, and one with a picture and a table that was forked from it."""
    root = tmp_path / "ranked"
    for rank in range(4):
        steps = [
            step(at, 9.0 if (rank, at) == (3, SPIKE) else 1.0 + rank, compute_us=1500 if rank == 1 else 1000)
            for at in range(1, STEPS + 1 if rank != 2 else 151)
        ]
        if rank == 1:
            steps.append(line(STEPS, kind="scalars", values={"of/one": 7.0}))
        name = "events.jsonl" if rank == 0 else f"events.rank-{rank}.jsonl"
        log(root / "parent", name, {"rank": rank, "world_size": 4}, steps, is_ended=rank != 2)
    fork = {"parent": {"run_id": "parent", "step": 100}}
    media = []
    for data, media_type in ((png(90), "image/png"), (b"id,n\n1,<b>two</b>\n", "text/csv")):
        digest = hashlib.sha256(data).hexdigest()
        file = root / "fork" / (media_file(digest, media_type) or "")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        media.append(line(STEPS, kind="media", name="pred", media_type=media_type, sha256=digest))
    log(root / "fork", "events.jsonl", fork, [*(step(at, 0.5) for at in range(101, STEPS + 1)), *media])
    return root


def charted(page: Page, text: str) -> None:
    """Wait until the first chart says that it shows *text*."""
    expect(page.locator(".chart-overlay").first).to_have_attribute("aria-label", re.compile(re.escape(text)))
    at_rest(page)


def place(page: Page, at: float, value: float) -> tuple[float, float]:
    """Return where a point is on the canvas of the first chart."""
    plot = json.loads(page.locator(".chart-canvas").first.get_attribute("data-plot") or "")
    x, y, box = plot["x"], plot["y"], plot["box"]
    across = box["left"] + box["width"] * (at - x["from"]) / (x["to"] - x["from"])
    return across, box["top"] + box["height"] * (y["to"] - value) / (y["to"] - y["from"])


def highest(page: Page) -> float:
    """Return the value at the upper edge of the first chart."""
    plot = json.loads(page.locator(".chart-canvas").first.get_attribute("data-plot") or "")
    return float(plot["y"]["to"])


def is_painted(page: Page, colour: str, distance: int, *wanted: tuple[float, float]) -> bool:
    """Return whether the first chart has *colour* at one of the points *wanted*, or gets it soon."""

    def holds() -> bool:
        places = [place(page, at, value) for at, value in wanted]
        found = pixels(page, colour, distance)
        return any(abs(x - across) <= 3 and abs(y - down) <= 3 for x, y in found for across, down in places)

    return until(page, holds)


def require_ranks(page: Page) -> None:
    """Require that the page of the run shows its ranks as a band, and names the slowest and the one that stopped."""
    charted(page, "loss by step, 4 ranks of 1 run")
    line = page.locator(".relatives")
    expect(line).to_contain_text("mean of 4 ranks, with the range from smallest to largest")
    expect(line).to_contain_text("rank 1, the slowest: 1.50 times the median of the others, by compute_us")
    facts = page.locator("#part-ranks .ranks-facts li")
    expect(facts.nth(0)).to_have_text("4 of 4 ranks have a log.")
    expect(facts.nth(1)).to_have_text("The run is complete, but the log of rank 2 is torn or damaged.")
    expect(facts.nth(2)).to_contain_text("Rank 2 stopped first: its last is step 150")
    expect(page.locator("#part-ranks table").first.locator("tbody tr")).to_have_count(4)
    expect(page.locator(".chart h3", has_text="of/one")).to_be_visible()
    # The mean is between the ranks, the slowest is at its own value, and the spike of a rank has its height.
    assert is_painted(page, "--run-0", 90, (60, 2.5)), "the mean of 1, 2, 3 and 4"
    assert is_painted(page, "--run-0", 90, (180, 7 / 3)), "the mean without the rank that has stopped"
    assert is_painted(page, "--run-1", 60, (60, 2.0)), "the slowest"
    assert is_painted(page, "--spike", 60, (SPIKE, 8.9)), "the spike of rank 3"


def require_fork(page: Page) -> None:
    """Require that the curve of the parent is there up to the fork and no further, and what the fork has beside it."""
    charted(page, "loss by step, 2 runs")
    expect(page.locator(".facts")).to_contain_text("parent at step 100")
    expect(page.locator(".relatives")).to_contain_text("parent up to step 100, where this run was forked from it")
    assert is_painted(page, "--run-3", 60, *((at, 1.0) for at in range(50, 60))), "dashes of the parent"
    (border, _), (end, _) = place(page, 100, 1.0), place(page, STEPS, 1.0)
    # The name of the parent is after the end of the axis.
    assert max(x for x, _ in pixels(page, "--run-3", 60) if x <= end) <= border + 2
    page.wait_for_function("() => document.querySelector('.media-stage img')?.naturalWidth === 24")
    expect(page.locator("#part-tables td")).to_have_text(["1", "<b>two</b>"])


def test_ranks_are_a_band_and_the_slowest_is_named(viewed: Viewed, ranked: Path) -> None:
    """Mean, smallest and largest are drawn; the user may see each rank, or the first alone."""
    page, _ = viewed.open(ranked, "#run/parent")
    require_ranks(page)
    choice = page.get_by_label("How ranks are shown")
    choice.select_option("each rank")
    assert is_painted(page, "--run-3", 60, (60, 4.0)), "rank 3 has a curve of its own"
    expect(page.locator(".relatives")).to_contain_text("rank 3")
    choice.select_option("rank 0 alone")
    charted(page, "loss by step, 1 run.")
    expect(page).to_have_url(re.compile("ranks=first"))
    expect(page.locator(".chart .unseen tbody tr").first).to_contain_text("parent")


def test_ranks_of_several_runs_are_drawn(viewed: Viewed, ranked: Path) -> None:
    """The mean of the ranks of a run is beside the curve of another; the user may see each rank, or the first alone."""
    page, _ = viewed.open(ranked, "#charts?focus=loss")
    charted(page, "loss by step, 2 runs, 4 ranks of 1 of them")
    line = page.locator(".relatives")
    expect(line).to_contain_text("1 run of those shown has several ranks: the mean is drawn, with the range")
    swatch = page.locator(".row", has_text="parent").locator(".swatch").get_attribute("class") or ""
    number = re.search(r"run-(\d)", swatch)
    assert number
    colour = f"--run-{number[1]}"
    assert is_painted(page, colour, 90, (60, 2.5)), "the mean of 1, 2, 3 and 4"
    assert is_painted(page, "--spike", 60, (SPIKE, highest(page))), "the spike of rank 3, whose curve is folded"
    page.get_by_role("button", name="1 curve leaves ↑").click()
    assert is_painted(page, "--spike", 60, (SPIKE, 8.9)), "the spike of rank 3"
    choice = page.get_by_label("How ranks are shown")
    choice.select_option("each rank")
    expect(line).to_contain_text("each rank is drawn in the colour of its run")
    assert is_painted(page, colour, 90, (60, 4.0)), "rank 3"
    choice.select_option("rank 0 alone")
    charted(page, "loss by step, 2 runs.")
    expect(line).to_contain_text("only rank 0 of each is drawn")


def test_rank_that_did_not_end_is_marked_beside_the_state(viewed: Viewed, ranked: Path) -> None:
    """The state of the run is that of rank 0, which is not all of it."""
    page, _ = viewed.open(ranked, "#run/parent")
    expect(page.locator(".run-title .chip")).to_have_text(["complete", "rank 2 torn"])
    page.goto("#run/fork")
    expect(page.locator(".run-title .chip")).to_have_text(["complete"])


def test_ranks_of_a_selected_run_are_drawn_before_many_others(viewed: Viewed, ranked: Path) -> None:
    """The envelope of the runs that are not selected is of these alone."""
    for number in range(60):
        log(ranked / f"other-{number}", "events.jsonl", {}, [step(at, 6.0) for at in range(1, STEPS + 1)])
    page, client = viewed.open(ranked, "#charts?focus=loss&sel=parent")
    client.settled_rows()
    charted(page, "4 ranks of 1 run")
    assert is_painted(page, "--run-0", 90, (60, 2.5)), "the mean of 1, 2, 3 and 4"
    assert is_painted(page, "--spike", 60, (SPIKE, 8.9)), "the spike of rank 3"
    assert is_painted(page, "--quiet", 60, (60, 6.0)), "the others"
    across, down = place(page, 60, 5.25)
    any_colour = pixels(page, "--quiet", 800)
    assert not any(abs(x - across) <= 3 and abs(y - down) <= 3 for x, y in any_colour), "nothing between them"


def test_click_on_a_spike_names_its_rank(viewed: Viewed, ranked: Path) -> None:
    """What is said below the chart is of the rank that it is drawn for."""
    page, _ = viewed.open(ranked, "#run/parent?focus=loss")
    charted(page, "4 ranks")
    box = page.locator(".chart-overlay").first.bounding_box()
    assert box
    x, y = place(page, SPIKE, 8.9)
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.click(box["x"] + x, box["y"] + y)
    expect(page.locator(".chart-line")).to_contain_text(re.compile("rank 3.*: spike 9"))


def test_curve_of_the_parent_ends_at_the_fork(viewed: Viewed, ranked: Path) -> None:
    """It is drawn by step alone, and a link leads to the parent."""
    page, _ = viewed.open(ranked, "#run/fork")
    require_fork(page)
    page.get_by_label("Axis x").select_option("time")
    expect(page.locator(".relatives")).to_contain_text("The run before the fork is drawn by step alone.")
    page.locator(".facts a", has_text="parent").click()
    expect(page.locator(".run-title")).to_contain_text("parent")


def test_early_fork_of_a_long_parent_has_its_part(viewed: Viewed, tmp_path: Path) -> None:
    """The part before the fork is less than a bucket of the whole parent, and is drawn by its points."""
    root = tmp_path / "runs"
    fork = {"parent": {"run_id": "parent", "step": 8}}
    log(root / "fork", "events.jsonl", fork, [step(at, 0.5) for at in range(9, 17)])
    page, _ = viewed.open(root, "#run/fork")
    expect(page.locator(".facts")).to_contain_text("parent at step 8, which is not listed here")
    # A parent that is read late is looked for again.
    log(root / "parent", "events.jsonl", {}, [step(at, 1.0) for at in range(1, 20_001)])
    charted(page, "2 runs")
    expect(page.locator(".facts a", has_text="parent")).to_be_visible()
    assert is_painted(page, "--run-3", 60, *((at / 4, 1.0) for at in range(8, 32)))


@pytest.fixture
def reported(browser: Browser, ranked: Path, tmp_path: Path) -> Iterator[Callable[[str], Page]]:
    """Yield what opens a report on the runs at a hash; problems on the pages fail the test."""
    page_text, _ = html_report([str(ranked)], now=0.0)
    file = tmp_path / "report.html"
    file.write_text(page_text, "utf-8")
    watch = Watch(browser, file.as_uri())

    def opened(hash_: str) -> Page:
        page = watch.new_page()
        page.goto(file.as_uri() + hash_)
        return page

    yield opened
    watch.close()
    assert [] == watch.troubles


def test_report_has_ranks_and_forks(reported: Callable[[str], Page]) -> None:
    """One file shows what the server does."""
    require_ranks(reported("#run/parent"))
    require_fork(reported("#run/fork"))


@pytest.mark.parametrize("hash_", ["#runs", "#charts?sel=parent", "#compare", "#run/parent", "#run/fork"])
def test_nothing_in_a_report_is_in_the_way_of_assistive_technology(reported: Callable[[str], Page], hash_: str) -> None:
    """No view of the file has a finding of axe, however small."""
    need_axe()
    page = reported(hash_)
    arrived(page, hash_)
    assert [] == findings(page)


def test_table_of_a_chart_has_each_rank_once(viewed: Viewed, ranked: Path) -> None:
    """The mean has a name that is text, and the slowest is not there twice."""
    page, _ = viewed.open(ranked, "#run/parent")
    charted(page, "4 ranks")
    page.locator(".chart summary").first.click()
    with page.expect_download() as download:
        page.get_by_text("CSV table").first.click()
    _, *rows = Path(download.value.path()).read_text("utf-8").splitlines()
    counts = Counter(row.partition(",")[0] for row in rows)
    others = {f"parent/events.rank-{rank}.jsonl": STEPS if rank != 2 else 150 for rank in (1, 2, 3)}
    assert {"parent": STEPS, "mean of 4 ranks (min to max)": STEPS, **others} == counts
