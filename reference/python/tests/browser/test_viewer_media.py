"""What a run of revision 1.3 shows beside curves: media, alerts, histograms, samples with rewards."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.axe import findings, need_axe
from browser.viewer_pages import MadeRun, Opened, drawn
from browser.watching import PHONE, WIDE
from toyspec.core.reading.run_files import media_file

_SCRIPT = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'</script>"


def png(red: int, size: int = 24) -> bytes:
    """Return a picture of one colour."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes((red, 90, 160)) * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def media(
    root: Path, data: bytes | None, media_type: str = "image/png", *, run: str = "shown", **more: Any
) -> dict[str, Any]:
    """Return a record of a media file with *data*, or of one that is not there, in a run below *root*."""
    digest = hashlib.sha256(data or b"").hexdigest()
    if data is not None:
        file = root / "made-0" / run / (media_file(digest, media_type) or "")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return {"kind": "media", "name": "pred", "media_type": media_type, "sha256": digest, **more}


def test_slider_leads_to_the_pictures_of_each_step(opened: Opened, tmp_path: Path) -> None:
    """The last step is shown first; the slider chooses others, and a caption is text."""
    records = {
        100 * number: [media(tmp_path, png(40 * number), caption=f"{number} {_SCRIPT}", width=24, height=24)]
        for number in range(4)
    }
    page, _ = opened([MadeRun("shown", {"loss": [1.0] * 9}, records=records)], "#run/shown")
    part = page.locator("#part-pictures")
    expect(part.locator(".media-stage img")).to_have_count(1)
    expect(part.locator("output")).to_have_text("step 300")
    expect(part.locator(".prose")).to_have_text(f"3 {_SCRIPT}")
    part.locator("input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(part.locator("output")).to_have_text("step 200")
    page.keyboard.press("Home")
    expect(part.locator("output")).to_have_text("step 0")
    page.wait_for_function("() => document.querySelector('.media-stage img')?.naturalWidth === 24")
    assert "pwned" not in page.title()


@pytest.mark.parametrize(
    ("size", "steps"), [(WIDE, [0, 300, 600, 1000, 1300, 1600, 1900]), (PHONE, [0, 1900])], ids=["wide", "phone"]
)
def test_wall_has_a_row_for_each_run(opened: Opened, tmp_path: Path, size: tuple[int, int], steps: list[int]) -> None:
    """Its columns are spread over the steps: plus shows fewer of them, larger, and the slider moves these."""
    logged = {"shown": range(0, 2000, 100), "late": (600, 1000)}
    records = {
        name: {at: [media(tmp_path, png(90), run=name, caption=_SCRIPT)] for at in some}
        for name, some in logged.items()
    }
    page, _ = opened([MadeRun(name, {"loss": [1.0]}, records=records[name]) for name in logged], "#compare", size)
    page.get_by_role("button", name="Show the pictures of 2 runs").click()
    wall = page.locator(".wall")

    def titled(step: int) -> str:
        return f"step {step:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")

    def expect_columns(steps: list[int]) -> None:
        expect(wall.locator("thead th")).to_have_text([titled(step) for step in steps])
        # What was logged last is shown, with its step if it is not that of the column.
        for name, some in logged.items():
            last = [max((at for at in some if at <= step), default=None) for step in steps]
            own = ["" if at == step else titled(at) for at, step in zip(last, steps, strict=True) if at is not None]
            row = wall.locator("tbody tr").filter(has=page.get_by_role("link", name=name))
            expect(row.locator("figcaption small")).to_have_text(own)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]

    expect_columns(steps)
    for _ in range(5):
        page.get_by_role("button", name="Fewer steps").click()
    page.get_by_label("Steps of all runs").focus()
    for key, step in (("Home", 0), ("End", 1900), ("ArrowLeft", 1800)):
        page.keyboard.press(key)
        expect_columns([step])
    page.wait_for_function("() => document.querySelector('.wall img').naturalWidth === 24")
    assert "pwned" not in page.title()
    for _ in range(5):
        page.get_by_role("button", name="More steps").click()
    expect_columns(steps)
    need_axe()
    assert [] == findings(page)


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/javascript", _SCRIPT])
def test_type_that_is_not_listed_is_a_file_to_save(opened: Opened, tmp_path: Path, media_type: str) -> None:
    """Nothing of it is put into the page: neither a picture nor a frame."""
    records = {1: [media(tmp_path, b"x", media_type, name=_SCRIPT)]}
    page, _ = opened([MadeRun("shown", records=records)], "#run/shown")
    part = page.locator("#part-other-files")
    expect(part.locator("a[download]")).to_have_count(1)
    expect(part.locator("img, audio, video, iframe, object, embed")).to_have_count(0)
    assert "pwned" not in page.title()


def test_sounds_films_and_tables_are_shown(opened: Opened, tmp_path: Path) -> None:
    """A sound has a player, and a table its cells as text."""
    table = f'id,text\n1,"a, ""b"""\n2,{_SCRIPT}\n'.encode()
    records = [
        media(tmp_path, None, "audio/wav", name="voice"),
        media(tmp_path, table, "text/csv", name="answers", size_bytes=len(table)),
    ]
    page, _ = opened([MadeRun("shown", records={1: records})], "#run/shown")
    expect(page.locator("#part-sounds audio[controls]")).to_have_count(1)
    cells = page.locator("#part-tables td")
    expect(cells).to_have_text(["1", 'a, "b"', "2", _SCRIPT])


def test_missing_picture_is_said(opened: Opened, tmp_path: Path) -> None:
    """A file that is not there leaves a sentence instead of a broken picture."""
    page, _ = opened([MadeRun("shown", records={1: [media(tmp_path, b"no picture")]})], "#run/shown")
    expect(page.locator("#part-pictures")).to_contain_text("The file is missing or cannot be shown.")


def test_alert_is_a_flag_on_the_chart_of_its_metric(opened: Opened) -> None:
    """It is listed with its rule, and named under the pointer on that chart alone."""
    alert: dict[str, Any] = {"kind": "alert", "rule": "spike", "level": "error", "text": "loss is 9"}
    alert |= {"metric": "loss", "value": 9.0, "threshold": 4.0}
    run = MadeRun("alerted", {"loss": [2.0] * 50, "val/acc": [float(at) for at in range(50)]}, records={26: [alert]})
    page, _ = opened([run], "#run/alerted")
    drawn(page)
    expect(page.locator("#part-alerts")).to_contain_text("spike")
    expect(page.locator("#part-alerts")).to_contain_text("step 26 · loss = 9 · threshold 4")
    for at, count in ((0, 1), (1, 0)):
        overlay = page.locator(".chart-overlay").nth(at)
        width = overlay.evaluate("(element) => element.clientWidth")
        # Waits until the chart stays where it is.
        overlay.hover(position={"x": 58 + (width - 72) * 25 / 49, "y": 100})
        expect(page.locator(".tooltip:not([hidden]) .tooltip-flag")).to_have_count(count)


def test_console_of_a_run_follows(opened: Opened) -> None:
    """What a run prints is on its page: of a line that was written over the last text, and what comes later."""
    page, made = opened([MadeRun("live", {"loss": [1.0]}, end=None)], "#run/live")
    with (made.root / "live" / "stdout").open("w") as file:
        for text, shown in (("10 %\r90 %\n", "90 %\n"), ("\x1b[1m<b>done\n", "90 %\n<b>done\n")):
            file.write(text)
            file.flush()
            made.grow("live", [0.5])
            expect(page.locator("#part-console .console")).to_have_text(shown, use_inner_text=True)


def test_samples_are_sorted_by_reward(opened: Opened) -> None:
    """The order is chosen; messages and parts of the reward are shown as text."""
    samples = {
        number: [{
            "kind": "sample", "prompt": "p", "text": f"answer {number} {_SCRIPT}", "reward": reward,
            "rewards": {"format": 1.0}, "advantage": -reward, "tokens": 12,
            "messages": [{"role": "user", "content": f"question {number}"}],
        }]
        for number, reward in enumerate((0.5, 2.0, 1.0))
    }  # fmt: skip
    page, _ = opened([MadeRun("rl", {"loss": [1.0]}, records=samples)], "#run/rl")
    part = page.locator("#part-samples")
    expect(part.locator(".reward")).to_have_text(["reward 1", "reward 2", "reward 0.5"])
    part.locator("select").select_option("highest reward first")
    expect(part.locator(".reward")).to_have_text(["reward 2", "reward 1", "reward 0.5"])
    expect(part).to_contain_text("question 1")
    assert "pwned" not in page.title()


def test_histograms_of_any_bins_are_drawn(opened: Opened) -> None:
    """Bins of different widths are where their edges are, and the last record is read out."""
    bins = {"kind": "histogram", "name": "weights", "edges": [0.0, 1.0, 10.0]}
    page, _ = opened([MadeRun("bins", records={at: [{**bins, "counts": [5, at]}] for at in range(20)})], "#run/bins")
    card = page.locator("#part-distributions .histogram")
    expect(card).to_contain_text("step 19: 0 to 10, mean 4.458")
    assert json.loads(card.locator("canvas").evaluate("(canvas) => JSON.stringify(canvas.width > 300)"))
