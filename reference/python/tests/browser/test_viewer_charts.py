"""The charts of the viewer in a browser, over runs that each test makes up."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.viewer_pages import MadeRun, Opened, at_rest, drawn, falling, pixels, until
from browser.viewer_pixels import shown
from browser.watching import PHONE


def test_values_that_are_not_finite_are_marked(opened: Opened) -> None:
    """The reading names them; the crosses are asked for pixel by pixel."""
    values = [2.0] * 50 + [math.nan] * 5 + [1.0] * 45
    page, _ = opened([MadeRun("nan", {"loss": values})], "#charts")
    drawn(page)
    box = page.locator(".chart-overlay").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + 58 + (box["width"] - 72) * 0.52, box["y"] + 100)
    expect(page.locator(".tooltip-lost")).to_have_text("not finite")


def test_means_of_groups_are_named_and_groups_without_one_are_counted(opened: Opened) -> None:
    """The colours of the means are in a legend, where a run without the setting is in a group of its own."""
    runs = [MadeRun(f"r{at}", {"loss": [2.0] * 50}, {"config": {"lr": at // 2, "seed": at}}) for at in range(6)]
    page, _ = opened([*runs, MadeRun("none", {"loss": [2.0] * 50})], "#charts?by=config.lr")
    expect(page.locator(".legend-group")).to_have_text(
        ["lr 0, 2 runs", "lr 1, 2 runs", "lr 2, 2 runs", "lr none, 1 run"]
    )
    runs = [MadeRun(f"r{at}", {"loss": [2.0] * 50}, {"config": {"lr": at // 2}}) for at in range(28)]
    page, _ = opened(runs, "#charts?by=config.lr")
    expect(page.locator(".legend-group")).to_have_count(12)
    expect(page.locator(".legend")).to_contain_text("2 groups more without a mean")


def test_line_of_a_run_is_dashed_across_a_setting_that_it_lacks(opened: Opened) -> None:
    """A line drawn through the axis would be read as a value on it; marks along an axis choose runs."""
    settings = [{"lr": 0.1, "width": 64}, {"lr": 0.2, "width": 128}, {"lr": 0.3, "width": 32}, {"lr": 0.4}]
    runs = [MadeRun(f"r{at}", {"loss": [4.0 - at]}, {"config": each}) for at, each in enumerate(settings)]
    page, _ = opened(runs, "#compare")
    absent = page.locator(".parallel .is-absent")
    expect(absent).to_have_count(1)
    assert 2 == len((absent.get_attribute("points") or "").split())
    grip = page.locator(".parallel .axis-grip").first
    place = "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.height]; }"
    # What is drawn above an axis moves it; a gesture begins where it is.
    for _ in range(100):
        grip.hover(position={"x": 11, "y": 2})
        page.wait_for_timeout(200)
        before = grip.evaluate(place)
        page.wait_for_timeout(200)
        x, y, height = grip.evaluate(place)
        if before == [x, y, height]:
            break
    else:
        pytest.fail("the axis moves without end")
    page.mouse.move(x + 11, y + 2)
    page.mouse.down()
    page.mouse.move(x + 11, y + height / 2, steps=4)
    page.mouse.up()
    expect(page.locator(".relations")).to_contain_text("2 runs within what is marked")
    page.get_by_role("button", name="Select these").click()
    expect(page.locator(".bar > .count")).to_have_text("4 runs, 2 selected")


def test_notes_and_findings_of_selected_runs_are_flagged(opened: Opened) -> None:
    """They are on the curves of a few selected runs, by every axis, after the name of the run."""
    runs = [
        MadeRun("a", {"loss": [2.0] * 50}, records={26: [{"kind": "note", "text": "lower the rate"}]}),
        MadeRun("b", {"loss": [3.0] * 50}, records={26: [b"lost\n"]}),
    ]
    for axis in ("step", "wall"):
        page, _ = opened(runs, f"#charts?sel=a,b&x={axis}")
        drawn(page)
        box = page.locator(".chart-overlay").first.bounding_box()
        assert box
        page.mouse.move(box["x"] + 58 + (box["width"] - 72) * 25 / 49, box["y"] + 100)
        flags = page.locator(".tooltip-flag")
        expect(flags).to_have_text(["a: lower the rate", re.compile("b: invalid-json: ")])


def test_toolbar_of_a_phone_takes_one_line(opened: Opened) -> None:
    """What is rarely used is behind a button, which counts what differs from the start; so is the list of runs."""
    page, _ = opened([MadeRun("a", {"loss": falling(20)})], "#charts?log=y", PHONE)
    drawn(page)
    toolbar = page.get_by_role("toolbar", name="Charts")
    assert toolbar.evaluate("(element) => element.offsetHeight") < 2 * 44, "each target is 44 px high"
    expect(page.get_by_text("Log x")).to_be_hidden()
    # That axis is there where a run defines one.
    expect(page.get_by_label("Axis x").locator("option[value=defined]")).to_have_count(0)
    page.get_by_role("button", name="Options (1)").click()
    page.get_by_label("Log x").check()
    expect(page.get_by_role("button", name="Options (2)")).to_be_visible()
    runs = page.get_by_role("complementary", name="Runs")
    expect(runs).to_be_hidden()
    page.get_by_role("button", name="Runs", exact=True).click()
    expect(runs).to_be_visible()


def test_width_of_the_list_is_remembered(opened: Opened) -> None:
    """Its edge is dragged, and is there when the page is opened again."""
    page, _ = opened([MadeRun("a", {"loss": falling(20)})], "#charts")
    grip = page.get_by_role("separator", name="Width of the list")
    grip.hover()
    page.mouse.down()
    page.mouse.move(500, 400, steps=3)
    page.mouse.up()
    page.reload()
    expect(grip).to_have_attribute("aria-valuenow", "500")
    expect(page.locator(".side")).to_have_css("width", "500px")


@pytest.mark.parametrize("width", [1280, 1440, 1920])
def test_toolbar_takes_one_line_and_headings_are_whole(opened: Opened, width: int) -> None:
    """On usual screens nothing wraps and no heading of the usual columns is cut."""
    curves = {"loss": falling(20), "val/acc": falling(20)}
    starts = [{"config": {"lr": lr, "max_steps": 40}} for lr in (0.1, 0.2)]
    runs = [MadeRun(name, curves, start, {9: [b"lost\n"]}) for name, start in zip("ab", starts, strict=True)]
    page, _ = opened(runs, "#charts", (width, 900))
    drawn(page)
    assert page.get_by_role("toolbar", name="Charts").evaluate("(element) => element.offsetHeight") < 64
    page.keyboard.press("1")
    cut = "heads => heads.filter((head) => head.scrollWidth > head.clientWidth).map((head) => head.textContent)"
    assert [] == page.locator(".heading").evaluate_all(cut)


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
    assert until(page, lambda: "from=" in made.requests[-1])
    page.locator(".chart-overlay").first.focus()
    asked = len(made.requests)
    page.keyboard.press("+")
    assert until(page, lambda: len(made.requests) > asked)
    at_rest(page)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#announcement")).to_contain_text("long 1.0")
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("zoom"))


def test_lost_server_is_said_and_found_again(opened: Opened) -> None:
    """A stream of changes that ends is said at once; the message goes when there is one again."""
    page, made = opened([MadeRun("live", {"loss": falling(10)}, end=None)], "#charts")
    drawn(page)
    assert until(page, lambda: made.streams)
    # The next stream waits: the page would have one again before the message is looked at.
    made.may_stream.clear()
    stream = made.streams[0]
    stream.server.end_waiting(stream.connection)
    expect(page.locator(".message").first).to_contain_text("does not answer")
    made.may_stream.set()
    expect(page.locator(".message").first).to_be_hidden()


def test_hidden_tab_holds_no_connection(opened: Opened) -> None:
    """A tab that is not seen closes its stream, and catches up when it is seen."""
    page, made = opened([MadeRun("live", {"loss": falling(10)}, end=None)], "#charts")
    drawn(page)
    assert until(page, lambda: made.streams)
    see = """isHidden => {
        Object.defineProperty(document, "hidden", {value: isHidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(see, True)
    page.wait_for_timeout(1500)
    assert 1 == len(made.streams)
    made.grow("live", [0.5] * 10)
    page.evaluate(see, False)
    expect(page.locator(".chart .unseen").first).to_contain_text("0.5")


def test_end_and_log_are_apart(opened: Opened) -> None:
    """A run that went wrong in a whole log is not green, and the text of its error is on its page at once."""
    errored = MadeRun("bad", {"loss": falling(10)}, end={"reason": "errored", "error": "out of memory"})
    page, _ = opened([errored, MadeRun("good", {"loss": falling(10)})], "#runs")
    expect(page.locator(".chip")).to_have_text(["errored", "complete"])
    assert "chip-complete" not in (page.locator(".chip").first.get_attribute("class") or "")
    page.get_by_role("link", name="bad").click()
    expect(page.locator(".run-error")).to_have_text("Error: out of memory")


def test_drag_up_zooms_into_values(opened: Opened) -> None:
    """A drag along the axis y shows a range of values of that chart; Escape shows everything again."""
    page, _ = opened([MadeRun("a", {"loss": falling(100)})], "#charts?focus=loss")
    drawn(page)
    canvas = page.locator(".chart-canvas")
    heights = "canvas => JSON.parse(canvas.dataset.plot).y.to - JSON.parse(canvas.dataset.plot).y.from"
    whole = canvas.evaluate(heights)
    box = page.locator(".chart-overlay").bounding_box()
    assert box
    page.mouse.move(box["x"] + 300, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 303, box["y"] + 150, steps=3)
    page.mouse.up()
    assert until(page, lambda: canvas.evaluate(heights) < whole / 3)
    page.locator(".chart-overlay").focus()
    page.keyboard.press("Escape")
    assert until(page, lambda: whole == canvas.evaluate(heights))


def test_chart_is_exported(opened: Opened, tmp_path: Path) -> None:
    """Each file has every run: the table by its id, the pictures by names that stay different."""
    names = [f"sweep-of-the-small-model-lr0.0{number}-20261121-001" for number in range(4)]
    page, _ = opened([MadeRun(name, {"val/loss": falling(30)}) for name in names], "#charts")
    drawn(page)
    chart = page.locator(".chart").first
    files = {}
    for kind in ("PNG image", "SVG image", "CSV table"):
        chart.get_by_text("Export").click()
        with page.expect_download() as download:
            chart.get_by_text(kind).click()
        files[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[kind])
    assert {"val-loss.png", "val-loss.svg", "val-loss.csv"} == {file.name for file in files.values()}
    head, *rows = files["CSV table"].read_text("utf-8").splitlines()
    assert "run,step,mean,min,max,count,not_finite" == head
    assert [f"{names[0]},1,6,6,6,1,0", 30 * 4] == [rows[0], len(rows)]
    assert b"\x89PNG" == files["PNG image"].read_bytes()[:4]
    shown = re.findall(r">([^<]*lr0[^<]*)</text>", files["SVG image"].read_text("utf-8"))
    assert 4 == len(set(shown))
    assert all(f"lr0.0{number}" in text for number, text in enumerate(shown))


def test_curves_are_not_asked_for_while_they_are_dragged(opened: Opened) -> None:
    """A drag of many runs draws what is there; the range where it ends is asked for once."""
    runs = [MadeRun(f"r{number}", {"loss": falling(1000, end=number)}) for number in range(20)]
    page, made = opened(runs, "#charts?focus=loss&zoom=200,400")
    drawn(page)
    asked = len(made.requests)
    page.evaluate(
        """() => {
            const chart = document.querySelector(".chart-overlay"), box = chart.getBoundingClientRect();
            const shared = {clientY: box.top + 100, shiftKey: true, button: 0, pointerId: 1, bubbles: true};
            const event = (type, x) => chart.dispatchEvent(new PointerEvent(type, {clientX: box.left + x, ...shared}));
            chart.setPointerCapture = () => undefined;
            event("pointerdown", 300);
            for (let at = 0; at < 30; at++) event("pointermove", 300 + at);
            event("pointerup", 330);
        }"""
    )
    assert until(page, lambda: len(made.requests) > asked)
    at_rest(page)
    assert 1 == len({request.partition("from=")[2] for request in made.requests[asked:]})


def test_runs_are_coloured_by_a_setting(opened: Opened) -> None:
    """A number has a scale from its lowest to its highest value, other settings a legend; runs share the colours."""
    runs = [
        MadeRun(
            f"r{number}",
            {"loss": falling(20, end=number)},
            {"config": {"lr": 0.1 / (1 + number), "opt": "ab"[number % 2]}},
        )
        for number in range(60)
    ]
    page, _ = opened(runs, "#charts")
    drawn(page)
    # So many would be a fog: what they may be coloured by is offered.
    expect(page.locator(".legend")).to_contain_text("60 runs in grey")
    expect(page.locator(".legend .button")).to_have_text(["best loss", "lr", "opt"])
    page.locator(".legend .button", has_text="lr").click()
    expect(page.locator(".legend-bar")).to_have_attribute("aria-label", re.compile("from 0.00166.* to 0.1"))
    first, last = (page.locator(".table-narrow .swatch").nth(at).evaluate("e => e.style.color") for at in (0, 9))
    assert first != last
    page.get_by_label("What colours runs").select_option("config.opt")
    expect(page.locator(".legend-group")).to_have_text(["a", "b"])
    assert until(page, lambda: pixels(page, "--run-0"))


@pytest.mark.parametrize(("count", "metric"), [(60, "loss"), (60, "val/acc"), (9, "loss")])
def test_swatch_has_the_colour_of_the_curve(opened: Opened, count: int, metric: str) -> None:
    """Of many runs both are grey, in a chart of few of them too; one that is selected or pointed at has its colour."""
    runs = []
    for at in range(count):
        curves: dict[str, Sequence[float]] = {"loss": [1.0 + at] * 20}
        if at < 5:
            curves["val/acc"] = [0.5 + at] * 20
        runs.append(MadeRun(f"r{at:02}", curves))
    page, _ = opened(runs, f"#charts?focus={metric}")
    shown(page, 5 if metric == "val/acc" else count)
    usual = [f"--run-{number}" for number in range(7)]
    is_grey = count > 50
    colours = ["--quiet"] if is_grey else usual
    others = usual if is_grey else ["--quiet"]
    assert until(page, lambda: any(pixels(page, name, 30) for name in colours))
    assert not any(pixels(page, name, 30) for name in others)
    assert (["--quiet"] * 3 if is_grey else usual[:3]) == [swatch_of(page, f"r{at:02}") for at in range(3)]
    page.locator(".row", has_text="r01").hover()
    expect(page.locator(".row", has_text="r01")).to_have_class(re.compile("is-pointed"))
    assert until(page, lambda: "--run-1" == swatch_of(page, "r01") and pixels(page, "--run-1"))
    page.locator(".row", has_text="r02").click()
    page.locator(".bar, header").first.hover()
    assert until(page, lambda: (own := swatch_of(page, "r02")) in usual and pixels(page, own))


def swatch_of(page: Page, run: str) -> str:
    """Return the custom property of the colour that the swatch of *run* in the table has."""
    script = """swatch => {
        const style = getComputedStyle(document.documentElement);
        const probe = document.body.appendChild(document.createElement("span"));
        const names = ["--quiet", ...Array.from({length: 7}, (_, at) => `--run-${at}`)];
        const found = names.find((name) => {
            probe.style.color = style.getPropertyValue(name);
            return getComputedStyle(probe).color === getComputedStyle(swatch).backgroundColor;
        });
        probe.remove();
        return found ?? "";
    }"""
    found: str = page.locator(".row", has_text=run).locator(".swatch").evaluate(script)
    return found


def test_table_of_a_long_run_has_its_points(opened: Opened, tmp_path: Path) -> None:
    """The file has each value as it was logged, not the buckets of the picture."""
    values = [1.0 + at / 7000 for at in range(7000)]
    page, _ = opened([MadeRun("long", {"loss": values})], "#charts")
    drawn(page)
    page.locator(".chart").first.get_by_text("Export").click()
    with page.expect_download() as download:
        page.get_by_text("CSV table").click()
    download.value.save_as(tmp_path / "loss.csv")
    rows = [row.split(",") for row in (tmp_path / "loss.csv").read_text("utf-8").splitlines()[1:]]
    assert values == [float(row[2]) for row in rows]


def test_chart_and_run_are_pinned(opened: Opened) -> None:
    """A pinned metric is the first chart, a pinned run the first row, and both are in the address."""
    runs = [MadeRun(name, {"loss": falling(9), "val/acc": falling(9)}) for name in ("a", "b", "c")]
    page, _ = opened(runs, "#charts?sort=name")
    page.get_by_role("button", name="Pin val/acc").click()
    expect(page.locator(".section h2")).to_have_text(["Pinned", "Results"])
    expect(page.locator(".chart h3").first).to_have_text("val/acc")
    page.keyboard.press("1")
    page.locator("[aria-rowindex='4']").click()
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator("[aria-rowindex='2'] .name")).to_have_text("c")
    expect(page).to_have_url(re.compile(r"pins=.*top="))
    page.get_by_role("button", name="Unpin c").click()
    expect(page.locator("[aria-rowindex='2'] .name")).to_have_text("a")


def test_metric_that_counts_steps_is_an_axis(opened: Opened) -> None:
    """With the defined step as axis, a curve is at the values of the metric that `define` names; others by step."""
    define = {"kind": "define", "name": "loss", "step_name": "env_steps"}
    curves = {"loss": falling(20), "env_steps": [1000.0 * at for at in range(20)]}
    page, _ = opened([MadeRun("a", curves, records={0: [define]})], "#charts?focus=loss")
    drawn(page)
    page.get_by_label("Axis x").select_option("Defined step")
    ends = "(({x}) => [x.from, x.to].join())(JSON.parse(document.querySelector('.chart-canvas').dataset.plot))"
    page.wait_for_function(f"() => {ends} === '0,19000'")
    page.locator(".chart-overlay").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#announcement")).to_contain_text("at ")


def test_alert_is_on_the_strip(opened: Opened) -> None:
    """Each run's alerts have a tick below the chart, which names run and rule, and leads to its line."""
    alert = {"kind": "alert", "rule": "loss-spike", "level": "error", "text": "loss is 9"}
    runs = [MadeRun(f"r{number:02}", {"loss": falling(100)}) for number in range(60)]
    runs[7].records = {50: [alert]}
    page, _ = opened(runs, "#charts?focus=loss")
    drawn(page)

    def place() -> tuple[float, float]:
        plot = page.evaluate("JSON.parse(document.querySelector('.chart-canvas').dataset.plot)")
        box, area = plot["box"], page.locator(".chart-overlay").bounding_box()
        assert area
        return area["x"] + box["left"] + box["width"] * 49 / 99, area["y"] + box["top"] + box["height"] + 9

    def is_named() -> bool:
        page.mouse.move(*place())
        return bool(page.locator(".tooltip-anomaly", has_text="r07 alert loss-spike at step 50").is_visible())

    # The chart finds its size after it was drawn first.
    assert until(page, is_named)
    page.mouse.click(*place())
    expect(page.locator(".chart-line")).to_contain_text("line 52")
    expect(page.locator(".chart-line .raw")).to_contain_text("loss is 9")


def test_all_tabs_share_one_stream(opened: Opened) -> None:
    """Eight tabs that are seen hold one connection, which another one takes over, and all of them are live."""
    page, made = opened([MadeRun("live", {"loss": falling(10)}, end=None)], "#charts")
    drawn(page)
    others = [page.context.new_page() for _ in range(7)]
    for other in others:
        other.goto("#charts")
        drawn(other)
    assert until(page, lambda: 1 == len(made.streams))
    page.close()
    for other in others:
        expect(other.locator(".chart .unseen").first).to_contain_text("1.")
    assert until(others[0], lambda: 2 == len(made.streams))
    made.grow("live", [0.5] * 10)
    for other in others:
        expect(other.locator(".chart .unseen").first).to_contain_text("0.5")
