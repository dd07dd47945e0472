"""The viewer of the site opens a folder: nothing leaves the page, and it works from a disk too."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.test_viewer_ranks import ranked, require_fork, require_ranks
from browser.viewer_pages import drawn, pixels
from browser.watching import PHONE, Watch

__all__ = ["ranked"]

START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"%s","config":{"lr":0.1}}\n'
END = '{"kind":"run_end","t":9e5,"reason":"completed"}\n'


def step(number: int, loss: float) -> str:
    """Return the line of a step."""
    return f'{{"kind":"step","t":{number}.5,"step":{number},"loss":{loss}}}\n'


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with a complete, a torn and a damaged run; the complete one has a spike of one step."""
    root = tmp_path / "runs"
    lines = [step(number, 99.5 if number == 7777 else 1.25) for number in range(1, 10_001)]
    texts = {
        "whole": START % "whole" + "".join(lines) + END,
        "torn": START % "torn" + "".join(lines[:400]) + lines[400][:20],
        "deep/damaged": START % "damaged" + "".join(lines[:200]) + "\0\0 lost\n" + "".join(lines[201:400]) + END,
    }
    for name, text in texts.items():
        (root / name).mkdir(parents=True)
        (root / name / "events.jsonl").write_text(text, "utf-8")
    (root / "notes.txt").write_text("no run", "utf-8")
    return root


@pytest.fixture
def disk(browser: Browser, site: Path, tmp_path: Path) -> Iterator[Watch]:
    """Yield a maker of pages for a copy of the viewer on a disk; requests beyond it fail the test."""
    file = shutil.copy(site / "assets/checker/toyspec-viewer.html", tmp_path)
    watch = Watch(browser, Path(file).as_uri())
    yield watch
    watch.close()
    assert [] == watch.troubles


def choose(page: Page, folder: Path) -> None:
    """Choose *folder* in the dialog of the page."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(folder)


def test_folder_from_a_disk(disk: Watch, runs: Path) -> None:
    """A page that was saved shows every run of a folder, its state, the spike, the findings and the raw line."""
    page = disk.new_page()
    page.goto("")
    choose(page, runs)
    drawn(page)
    rows = page.locator(".row")
    expect(rows).to_have_count(3)
    page.goto("#charts?q=whole")
    expect(rows).to_have_count(1)
    drawn(page)
    assert min(row for _, row in pixels(page, "--run-0", 200)) < 40, "the spike is at the top"
    page.goto("#runs")
    expect(page.locator(".chip")).to_have_text(["damaged", "torn", "complete"], use_inner_text=True)
    page.goto("#run/deep%2Fdamaged")
    expect(page.locator(".finding-error")).to_contain_text("nul-bytes")
    page.get_by_role("button", name="Line 202").click()
    expect(page.locator(".raw").first).to_contain_text("\\x00\\x00 lost")


def test_ranks_and_media_of_a_folder(disk: Watch, ranked: Path) -> None:
    """A run of several ranks is one run, with the band and the fork; pictures and tables are those of the folder."""
    page = disk.new_page()
    page.goto("")
    choose(page, ranked)
    expect(page.locator(".row")).to_have_count(2)
    page.goto("#run/parent")
    require_ranks(page)
    page.goto("#run/fork")
    require_fork(page)


def test_logs_of_other_programs(disk: Watch, tmp_path: Path) -> None:
    """Logs by their usual names are runs like all others, with their curves; what is not a table is named."""
    root = tmp_path / "others"
    texts = {
        "hf/checkpoint-2/trainer_state.json": '{"log_history":[{"step":1,"loss":2.5},{"step":2,"loss":NaN}]}',
        "table/metrics.csv": "step,loss\n1,0.5\n2,0.25\n3,0.125\n4\n",
        "none/report.csv": "name,city\na,b\n",
        "text/log.txt": "iter 1: loss 4.5, time 250.00ms\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text, "utf-8")
    page = disk.new_page()
    page.goto("")
    choose(page, root)
    drawn(page)
    expect(page.locator(".row")).to_have_count(2)
    expect(page.get_by_text("Not read here: others/text/log.txt")).to_contain_text("toyspec view FOLDER")
    page.goto("#runs?cols=%5B%22name%22,%22profile%22,%22best.loss%22%5D&sort=best.loss")
    expect(page.locator(".row").first).to_contain_text("table")
    expect(page.locator(".row").first).to_contain_text("0.125")
    page.goto("#run/table")
    expect(page.locator("#part-findings")).to_contain_text("Run `toyspec check` on it")
    expect(page.locator("#main")).to_contain_text("damaged")
    expect(page.locator(".facts")).to_contain_text("csv")


def test_zoom_reads_single_points_of_the_file(disk: Watch, runs: Path) -> None:
    """A closer look at a run that is kept as buckets reaches each step."""
    page = disk.new_page()
    page.goto("")
    choose(page, runs / "whole")
    expect(page.locator("h2", has_text="whole")).to_be_visible()
    page.goto("#charts?zoom=7770,7785&focus=loss")
    drawn(page)
    page.locator(".chart-overlay").focus()
    expect(page.locator(".chart .unseen").first).to_contain_text("99.5")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#announcement")).to_contain_text("1.25")


def test_demo(page: Page) -> None:
    """The demo has runs of three states; a folder that is dropped takes their place."""
    page.goto("assets/checker/toyspec-viewer.html#demo")
    drawn(page)
    expect(page.locator(".row")).to_have_count(6)
    text = START % "a" + step(1, 0.5) + END
    page.evaluate(
        """(text) => {
            const moved = new DataTransfer();
            moved.items.add(new File([text], "mine.jsonl"));
            document.dispatchEvent(new DragEvent("drop", {dataTransfer: moved, bubbles: true, cancelable: true}));
        }""",
        text,
    )
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator(".row .name")).to_contain_text("mine")


def test_link_opens_logs_from_their_addresses(page: Page, site: Path) -> None:
    """A link names logs of the site itself: each is a run, named for its folder."""
    for name, loss in (("first", 0.5), ("second run", 0.25)):
        (site / "linked" / name).mkdir(parents=True, exist_ok=True)
        (site / "linked" / name / "events.jsonl").write_text(START % name + step(1, loss) + END, "utf-8")
    page.goto(
        "assets/checker/toyspec-viewer.html#url=../../linked/first/events.jsonl"
        "&url=..%2F..%2Flinked%2Fsecond%2520run%2Fevents.jsonl"
    )
    drawn(page)
    expect(page.locator(".row .name")).to_have_text(["first", "second run"], use_inner_text=True)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("../../linked/none/events.jsonl", "status 404"),
        ("file:///etc/passwd", "begins with file:, which is not supported"),
        ("javascript:alert(1)", "begins with javascript:, which is not supported"),
        # The policy of the page allows https alone: a host that was not asked is not blamed.
        ("http://logs.example/a/events.jsonl", "begins with http:, which is not supported"),
        ("https://", "is not an address"),
    ],
)
def test_link_that_cannot_be_read_is_explained(watch: Watch, server: str, link: str, said: str) -> None:
    """What is wrong with a link is said on the page, where a folder can be chosen."""
    page = watch.new_page()
    address = f"{server}assets/checker/toyspec-viewer.html#url={link}"
    watch.expected.add(f"{server}linked/none/events.jsonl")
    page.goto(address)
    expect(page.get_by_role("alert")).to_contain_text(said)
    expect(page.get_by_role("button", name="Choose a folder")).to_be_visible()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" <!DOCTYPE html><p>Log in</p>", "is a web page, not a log"),
        ("", "is empty"),
        (None, "answers with status 404"),
    ],
)
def test_file_that_is_not_a_log_is_explained(
    watch: Watch, server: str, site: Path, text: str | None, said: str
) -> None:
    """What a host sends in place of a log is not shown as a run, and does not hide the other logs of the link."""
    folder = site / "linked" / said.replace(" ", "-")
    for name, content in (("a", text), ("b", START % "b" + step(1, 0.5) + END)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        if content is not None:
            (folder / name / "events.jsonl").write_text(content, "utf-8")
    wrong, right = (f"../../linked/{folder.name}/{name}/events.jsonl" for name in ("a", "b"))
    watch.expected.add(f"{server}linked/{folder.name}/a/events.jsonl")
    for link, runs in ((wrong, 0), (f"{wrong}&url={right}", 1)):
        page = watch.new_page()
        page.goto(f"assets/checker/toyspec-viewer.html#url={link}")
        expect(page.get_by_role("alert")).to_contain_text(said)
        expect(page.locator(".row")).to_have_count(runs)


def test_host_that_sends_nothing_is_given_up(watch: Watch) -> None:
    """That nothing comes is said after some seconds, and after a minute what to do."""
    page = watch.new_page()
    page.clock.install()
    # Playwright lets the request wait until the page gives it up.
    page.route("**/linked/silent/**", lambda route: None)
    page.goto("assets/checker/toyspec-viewer.html#url=../../linked/silent/events.jsonl")
    expect(page.get_by_role("status").filter(has_text="linked/silent")).to_contain_text("Reading")
    page.clock.run_for(7_000)
    expect(page.get_by_role("status").filter(has_text="linked/silent")).to_contain_text("Nothing came for 5 s")
    page.clock.run_for(60_000)
    expect(page.get_by_role("alert")).to_contain_text("sent nothing for 60 s")
    expect(page.get_by_role("button", name="Choose a folder")).to_be_visible()


def test_folder_without_runs(page: Page, tmp_path: Path) -> None:
    """A folder in which nothing is a run is named as that, and the next one can be chosen."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("nothing", "utf-8")
    page.goto("assets/checker/toyspec-viewer.html")
    choose(page, tmp_path / "other")
    expect(page.get_by_role("alert")).to_contain_text("No run was found")
    expect(page.get_by_role("button", name="Choose a folder")).to_be_focused()


def test_start_fits_a_phone(watch: Watch) -> None:
    """The page scrolls to no side, before and after runs are shown."""
    page = watch.new_page(PHONE)
    page.goto("assets/checker/toyspec-viewer.html")
    for shown in (page.get_by_role("button", name="Show a demo"), page.locator(".chart").first):
        expect(shown).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        shown.click()
