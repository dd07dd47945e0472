"""The page "Check a log" unpacks what is packed, names what is not a log, and works without a network or a server."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.checker_page import CHECK, END, START, opened, pick, pick_text, report, status

STEPS = [f'{{"kind":"step","t":{i}.0,"step":{i},"loss":{5 / i:.4f},"lr":0.5}}\n' for i in range(1, 41)]


@pytest.fixture
def checker(page: Page) -> Page:
    """Return the page, ready to take a log."""
    return opened(page)


def pick_bytes(page: Page, data: bytes, name: str) -> None:
    """Choose a file of *data*."""
    pick(page, {"name": name, "mimeType": "", "buffer": data})


def test_compressed_log(checker: Page) -> None:
    """A log that is compressed with gzip has the report of what it holds."""
    stream = START + "".join(STEPS) + "NaN\n" + END + '{"kind":'
    pick_text(checker, stream)
    expected = without_path(report(checker))
    pick_bytes(checker, gzip.compress(stream.encode()), "events.jsonl.gz")
    expect(checker.locator(".tc-path")).to_have_text("events.jsonl.gz")
    assert expected == without_path(report(checker))
    expect(checker.locator(".tc-counts")).to_contain_text("unpacked from gzip")


def without_path(made: dict[str, Any]) -> dict[str, Any]:
    """Return a report on one file without the path of it."""
    made["files"][0].pop("path")
    return made


def test_compressed_log_that_is_cut(checker: Page) -> None:
    """Compressed data that is cut off is an error with what to do, and no verdict."""
    pick_bytes(checker, gzip.compress("".join(STEPS).encode())[:-20], "events.jsonl.gz")
    assert "1 path could not be read" in status(checker)
    expect(checker.locator(".tc-errors")).to_contain_text("gzip -dc")


@pytest.mark.parametrize(
    ("data", "name", "look", "help_text"),
    [
        (START.encode("utf-16"), "events.jsonl", "UTF-16 text", "iconv"),
        (b"SQLite format 3\0" + b"\0\n" * 40, "log.db", "a SQLite database", "toyspec doctor"),
        (b'{\n  "epoch": 1.0\n}\n', "trainer_state.json", "a JSON document over several lines", "jq"),
        (b"version https://git-lfs.github.com/spec/v1\n", "events.jsonl", "a Git LFS pointer", "git lfs pull"),
        (b"PK\3\4" + b"\0\n" * 9, "logs.zip", "a zip archive", "unzip"),
    ],
    ids=["utf-16", "sqlite", "json", "lfs", "zip"],
)
def test_file_of_another_kind(checker: Page, data: bytes, name: str, look: str, help_text: str) -> None:
    """A file that is known by its first bytes is named, with what reads it, and no power loss is suspected."""
    pick_bytes(checker, data, name)
    status(checker)
    expect(checker.locator(".tc-state-line")).to_contain_text(f"looks like {look}")
    expect(checker.locator(".tc-help").first).to_contain_text(help_text)
    assert "power" not in checker.locator(".tc-verdict").inner_text()


def test_log_of_another_program(checker: Page) -> None:
    """JSON Lines of another program have one finding, which names its keys."""
    lines = [json.dumps({"global_step": 10 * i, "train": {"loss": 5 / i}, "tokens": i}) for i in range(1, 9)]
    pick_text(checker, "\n".join(lines) + "\n", "train.jsonl")
    status(checker)
    expect(checker.locator(".tc-finding")).to_have_count(1)
    expect(checker.locator(".tc-message")).to_contain_text("keys global_step, train, tokens")


def test_marked_keys(checker: Page) -> None:
    """The key is marked where the rule is about a key: the unknown one, and the second of two."""
    pick_text(checker, START + '{"kind":"note","t":1.0,"text":"a: \\"b\\"","tex\\"t" : 1,"text":"b"}\n' + END)
    status(checker)
    findings = checker.locator(".tc-finding")
    expect(findings.filter(has_text="unknown-key").locator("mark")).to_have_text('"tex\\"t"')
    expect(findings.filter(has_text="duplicate-key").locator("mark")).to_have_text('"text"')
    expect(findings.filter(has_text="duplicate-key").locator("code:has(mark)")).to_have_text(
        '{"kind":"note","t":1.0,"text":"a: \\"b\\"","tex\\"t" : 1,"text":"b"}'
    )


def test_page_without_a_network(checker: Page) -> None:
    """After the first visit the page opens and checks without a network."""
    checker.wait_for_function("async () => (await caches.match(location.href.split('#')[0])) !== undefined")
    checker.context.set_offline(True)
    checker.goto(CHECK)
    pick_text(checker, START + END)
    assert "1 run: complete · no findings" == status(checker)


def test_checker_as_one_file(browser: Browser, site: Path) -> None:
    """The checker that is one file works from a disk."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "assets/checker/toyspec-check.html").as_uri())
    pick_text(page, START + "".join(STEPS) + END.replace("9.0", "99.0"))
    assert "1 run: complete · no findings" == status(page)
    expect(page.get_by_role("button", name="See the curves")).to_have_count(0)
    assert [] == errors
    context.close()
