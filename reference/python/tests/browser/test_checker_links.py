"""An address of the page "Check a log" can hold a small log."""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.checker_page import GLUED, START, copied, opened, pick_folder, pick_text, report, status
from browser.watching import Watch


@pytest.fixture
def checker(page: Page) -> Page:
    """Return the page, ready to take a log."""
    return opened(page)


def test_permalink(checker: Page, watch: Watch, tmp_path: Path) -> None:
    """An address that was copied shows the same report to whoever opens it, bytes that are not text included."""
    run = tmp_path / "demo"
    run.mkdir()
    (run / "events.jsonl").write_bytes((START + GLUED).encode() + b"\xff\xfe\n\0\0")
    (run / "run.json").write_text("{}\n")
    pick_folder(checker, run)
    expected = report(checker)
    address = copied(checker, "Copy link")
    assert "#z=" in address
    other = watch.new_page()
    other.context.grant_permissions(["clipboard-read", "clipboard-write"])
    other.goto(address)
    assert expected == report(other)
    assert ["demo/events.jsonl"] == [file["path"] for file in expected["files"]]


def test_large_selection_has_no_link(checker: Page) -> None:
    """What does not fit into an address gets none."""
    noise = "".join(f'{{"kind":"note","t":{i}.0,"text":"{os.urandom(40).hex()}"}}\n' for i in range(1000))
    pick_text(checker, START + noise)
    status(checker)
    expect(checker.get_by_text("too large for a link")).to_be_visible()
    expect(checker.get_by_role("button", name="Copy link")).to_have_count(0)


def packed(data: bytes) -> str:
    """Return the fragment that unpacks to *data*."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return "#z=" + base64.urlsafe_b64encode(deflate.compress(data) + deflate.flush()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("fragment", "reason"),
    [
        (packed(b'[["a.jsonl",9]]\n' + bytes(20_000_000)), "holds more than"),
        (packed(b'[["a.jsonl",9]]\n{}\n')[:-6], "was cut or changed"),
        ("#z=%%%", "was cut or changed"),
        (packed(b"no header\n"), "holds no files"),
        (packed(b'[["a.jsonl",-9]]\n'), "holds no files"),
        ("#text=" + "a" * 40_000, "is longer than"),
    ],
    ids=["bomb", "cut", "no base64", "no header", "negative size", "long"],
)
def test_bad_addresses(page: Page, fragment: str, reason: str) -> None:
    """An address that holds no selection, or too much, is refused in words."""
    opened(page, fragment)
    expect(page.locator(".tc-status")).to_contain_text(reason)
    expect(page.locator(".tc-verdict")).to_have_count(0)


def test_next_selection(page: Page) -> None:
    """What is picked next takes the place of what the address held."""
    opened(page, "#text=" + START.replace("{", "%7B"))
    status(page)
    pick_text(page, START + GLUED)
    expect(page.locator(".tc-status")).to_have_text("1 run: damaged · 1 error, 1 warning")
    assert "#" not in page.url
