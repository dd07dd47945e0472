"""What a run of revision 1.3 shows beside curves: media, alerts, histograms, samples with rewards."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import pytest
from playwright.sync_api import expect

from browser.runs_backend import MadeRun
from browser.viewer_pages import Opened, drawn

_SCRIPT = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'</script>"


def png(red: int, size: int = 24) -> bytes:
    """Return a picture of one colour."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes((red, 90, 160)) * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def media(step: int, digest: str, media_type: str = "image/png", **more: Any) -> dict[str, Any]:
    """Return a record of a media file."""
    return {
        "t": step / 2,
        "step": step,
        "name": "pred",
        "media_type": media_type,
        "sha256": digest,
        "line": step,
    } | more


def test_slider_leads_to_the_pictures_of_each_step(opened: Opened) -> None:
    """The last step is shown first; slider and strip choose others, and a caption is text."""
    files = {f"{number:064x}": png(40 * number) for number in range(4)}
    records = [
        media(100 * number, f"{number:064x}", caption=f"{number} {_SCRIPT}", width=24, height=24) for number in range(4)
    ]
    run = MadeRun("pictures", {"loss": [1.0] * 9}, detail={"media": records}, files=files)
    page, _ = opened([run], "#run/pictures")
    part = page.locator("#part-pictures")
    expect(part.locator(".media-stage img")).to_have_count(1)
    expect(part.locator("output")).to_have_text("step 300")
    expect(part.locator(".prose")).to_have_text(f"3 {_SCRIPT}")
    part.locator("input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(part.locator("output")).to_have_text("step 200")
    part.locator(".media-small").first.click()
    expect(part.locator("output")).to_have_text("step 0")
    page.wait_for_function("() => document.querySelector('.media-stage img')?.naturalWidth === 24")
    assert "pwned" not in page.title()


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/javascript", _SCRIPT])
def test_type_that_is_not_listed_is_a_file_to_save(opened: Opened, media_type: str) -> None:
    """Nothing of it is put into the page: neither a picture nor a frame."""
    run = MadeRun("other", detail={"media": [media(1, "a" * 64, media_type, name=_SCRIPT)]}, files={"a" * 64: b"x"})
    page, _ = opened([run], "#run/other")
    part = page.locator("#part-other-files")
    expect(part.locator("a[download]")).to_have_count(1)
    expect(part.locator("img, audio, video, iframe, object, embed")).to_have_count(0)
    assert "pwned" not in page.title()


def test_sounds_films_and_tables_are_shown(opened: Opened) -> None:
    """A sound has a player, and a table its cells as text."""
    table = f'id,text\n1,"a, ""b"""\n2,{_SCRIPT}\n'.encode()
    records = [
        media(1, "a" * 64, "audio/wav", name="voice"),
        media(1, "b" * 64, "text/csv", name="answers", size_bytes=len(table)),
    ]
    run = MadeRun("mixed", detail={"media": records}, files={"b" * 64: table})
    page, _ = opened([run], "#run/mixed")
    expect(page.locator("#part-sounds audio[controls]")).to_have_count(1)
    cells = page.locator("#part-tables td")
    expect(cells).to_have_text(["1", 'a, "b"', "2", _SCRIPT])


def test_missing_picture_is_said(opened: Opened) -> None:
    """A file that is not there leaves a sentence instead of a broken picture."""
    run = MadeRun("lost", detail={"media": [media(1, "c" * 64, "image/png")]}, files={"c" * 64: b"no picture"})
    page, _ = opened([run], "#run/lost")
    expect(page.locator("#part-pictures")).to_contain_text("The file is missing or cannot be shown.")


def test_alert_is_a_flag_on_the_chart_of_its_metric(opened: Opened) -> None:
    """It is listed with its rule, and named under the pointer on that chart alone."""
    alert = {"t": 12.5, "step": 26, "rule": "spike", "level": "error", "text": "loss is 9", "line": 30}
    alerts = [alert | {"metric": "loss", "value": 9.0, "threshold": 4.0}]
    run = MadeRun("alerted", {"loss": [2.0] * 50, "lr": [1.0] * 50}, detail={"alerts": alerts})
    page, _ = opened([run], "#run/alerted")
    drawn(page)
    expect(page.locator("#part-alerts")).to_contain_text("spike")
    expect(page.locator("#part-alerts")).to_contain_text("step 26 · loss = 9 · threshold 4")
    for at, count in ((0, 1), (1, 0)):
        overlay = page.locator(".chart-overlay").nth(at)
        overlay.scroll_into_view_if_needed()
        box = overlay.bounding_box()
        assert box
        page.mouse.move(box["x"] + 58 + (box["width"] - 72) * 25 / 49, box["y"] + 100)
        expect(page.locator(".tooltip:not([hidden]) .tooltip-flag")).to_have_count(count)


def test_samples_are_sorted_by_reward(opened: Opened) -> None:
    """The order is chosen; messages and parts of the reward are shown as text."""
    samples = [
        {
            "t": number, "step": number, "prompt": "p", "text": f"answer {number} {_SCRIPT}", "reward": reward,
            "rewards": {"format": 1.0}, "advantage": -reward, "tokens": 12, "line": number + 2,
            "messages": [{"role": "user", "content": f"question {number}"}],
        }
        for number, reward in enumerate((0.5, 2.0, 1.0))
    ]  # fmt: skip
    page, _ = opened([MadeRun("rl", {"loss": [1.0]}, detail={"samples": samples})], "#run/rl")
    part = page.locator("#part-samples")
    expect(part.locator(".reward")).to_have_text(["reward 1", "reward 2", "reward 0.5"])
    part.locator("select").select_option("highest reward first")
    expect(part.locator(".reward")).to_have_text(["reward 2", "reward 1", "reward 0.5"])
    expect(part).to_contain_text("question 1")
    assert "pwned" not in page.title()


def test_histograms_of_any_bins_are_drawn(opened: Opened) -> None:
    """Bins of different widths are where their edges are, and the last record is read out."""
    records = [{"t": at, "step": at, "edges": [0.0, 1.0, 10.0], "counts": [5, at], "line": at + 2} for at in range(20)]
    run = MadeRun("bins", detail={"histograms": [{"kind": "histogram", "name": "weights", "records": records}]})
    page, _ = opened([run], "#run/bins")
    card = page.locator("#part-distributions .histogram")
    expect(card).to_contain_text("step 19: 0 to 10, mean 4.458")
    assert json.loads(card.locator("canvas").evaluate("(canvas) => JSON.stringify(canvas.width > 300)"))
