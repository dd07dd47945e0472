"""The page "Check a log" checks what is dropped, picked, pasted or in its address, and shows it safely."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from browser.checker_page import (
    CHECK,
    END,
    GLUED,
    HOSTILE,
    START,
    commanded,
    drop,
    opened,
    pick,
    pick_folder,
    pick_text,
    report,
    status,
)
from browser.watching import PHONE, Watch
from toyspec.core.files import resource_path

# Beside the package in a source tree, inside it when it is installed.
sys.path.insert(0, os.path.dirname(resource_path("conformance")))


@pytest.fixture
def checker(page: Page) -> Page:
    """Return the page, ready to take a log."""
    return opened(page)


def test_one_file(checker: Page) -> None:
    """A file that was picked shows its state, its finding with the place marked."""
    pick_text(checker, START + GLUED + END)
    assert "1 run: damaged · 1 error" == status(checker)
    finding = checker.locator(".tc-finding")
    expect(finding).to_have_count(1)
    expect(finding.locator(".tc-line code")).to_have_text(GLUED.strip())
    expect(finding.locator("mark")).to_have_text("k")
    expect(checker.get_by_text("1 gap 59 bytes")).to_be_visible()


def test_dropped_files(checker: Page) -> None:
    """Files that are dropped are checked; those beside an events.jsonl take part in its verdict."""
    transfer = checker.evaluate_handle(
        """(stream) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([stream], "events.jsonl"));
            transfer.items.add(new File(["{"], "flow.json"));
            return transfer;
        }""",
        START + END,
    )
    checker.dispatch_event(".tc-input", "drop", {"dataTransfer": transfer})
    assert "1 run: complete · 1 error" == status(checker)
    expect(checker.locator(".tc-finding")).to_contain_text("sidecar-unreadable")


def test_dropped_folder(checker: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of more runs than a browser lists at once is walked as the command walks it."""
    for number in range(120):
        run = tmp_path / "runs" / f"{number // 110}" / f"run-{number}"
        run.mkdir(parents=True)
        (run / "events.jsonl").write_text(START.replace("demo", f"run-{number}") + END)
        (run / "notes.txt").write_text("not a stream")
    (tmp_path / "runs" / "0" / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "runs" / "0" / "run-3" / "run.json").mkdir()
    (tmp_path / "none").mkdir()
    monkeypatch.chdir(tmp_path)
    drop(checker, tmp_path / "runs", tmp_path / "none")
    expected = json.loads(commanded("--format", "json", "runs", "none"))
    assert expected == report(checker)
    expect(checker.locator(".tc-over")).to_have_count(0)


def test_bundle(checker: Page, tmp_path: Path) -> None:
    """The name of a folder and the files in it take part; a folder without a stream is an error."""
    run = tmp_path / "other"
    run.mkdir()
    (run / "events.jsonl").write_text(START + END)
    (run / "notes.txt").write_text("not a stream")
    pick_folder(checker, run)
    assert "1 run: complete · 1 warning" == status(checker)
    expect(checker.locator(".tc-finding")).to_contain_text("run_id is demo, but the directory is named other")
    (run / "events.jsonl").unlink()
    pick_folder(checker, run)
    expect(checker.locator(".tc-status")).to_have_text("0 runs · no findings · 1 path could not be read")
    expect(checker.locator(".tc-errors")).to_contain_text("in this directory or below it")


def test_pasted_text(checker: Page) -> None:
    """Text that is typed or pasted is checked, with the LF that copying lost."""
    checker.get_by_role("button", name="Paste text").click()
    checker.get_by_label("lines of a log").fill((START + END).rstrip())
    checker.get_by_role("button", name="Check the text").click()
    assert "1 run: complete · no findings" == status(checker)
    checker.evaluate(
        """(text) => {
            const data = new DataTransfer();
            data.setData("text/plain", text);
            document.body.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true}));
        }""",
        START,
    )
    expect(checker.locator(".tc-status")).to_have_text("1 run: torn · 1 warning")


def test_hostile_log(checker: Page) -> None:
    """Markup and control characters in a log, in its name and in an address are shown, and never obeyed."""
    lines = [
        START.replace("demo", HOSTILE.replace("/", "|")),
        json.dumps({"kind": HOSTILE, "t": 1.0}),
        json.dumps({"kind": "step", "t": 1.0, "step": 1, HOSTILE: 1, "loss": HOSTILE}),
        json.dumps({"kind": "note", "t": 1.0, "text": "\u202e\x1b[2J"}, ensure_ascii=False) + HOSTILE,
        "{" + HOSTILE,
        json.dumps({"kind": "run_end", "t": 2.0, "reason": HOSTILE, "error": HOSTILE}),
    ]
    pick_text(checker, "\n".join(lines) + "\n" + HOSTILE, HOSTILE.replace("/", "|"))
    status(checker)
    assert None is checker.evaluate("window.hacked")
    assert 0 == checker.locator(".tc img, .tc script").count()
    assert HOSTILE in checker.locator(".tc-findings").inner_text()
    assert not {"\u202e", "\x1b"} & set(checker.locator(".tc").inner_text())
    opened(checker, "#text=" + HOSTILE + "&name=" + HOSTILE)
    status(checker)
    assert None is checker.evaluate("window.hacked")


def test_long_line(checker: Page) -> None:
    """Of a long line only the part around the place is shown."""
    filler = "x" * 1_000_000
    pick_text(checker, START + f'{{"kind":"note","t":1.0,"text":"{filler}","a":NaN,"b":"{filler}"}}\n')
    status(checker)
    shown = checker.locator(".tc-finding code").first.inner_text()
    assert 100 < len(shown) < 500
    assert shown.startswith("…")
    assert shown.endswith("…")
    expect(checker.locator(".tc-finding mark").first).to_have_text("NaN")


def test_many_findings(checker: Page) -> None:
    """The first findings are shown at once, the others on demand, and what is not listed is counted."""
    pick_text(checker, START + "NaN\n" * 130)
    status(checker)
    expect(checker.locator(".tc-finding")).to_have_count(12)
    checker.get_by_role("button", name="Show 89 more").click()
    expect(checker.locator(".tc-finding")).to_have_count(101)
    expect(checker.locator(".tc-suppressed")).to_contain_text("30 more, counted but not listed")


def test_curves_are_those_of_the_viewer(checker: Page) -> None:
    """The viewer opens on what was given, with its findings and its curves."""
    steps = "".join(f'{{"kind":"step","t":{i}.0,"step":{i},"loss":{100 / i}}}\n' for i in range(1, 10))
    pick_text(checker, START + steps + END)
    status(checker)
    with checker.expect_popup() as opening:
        checker.get_by_role("button", name="See the curves").click()
    viewer = opening.value
    expect(viewer.locator("#part-findings")).to_contain_text("The check finds nothing")
    expect(viewer.locator(".chart")).to_have_count(1)
    assert not viewer.url.endswith("#handed")
    viewer.close()


def large_log(path: Path, size: int) -> int:
    """Write a log of at least *size* bytes to *path*; return the number of its records."""
    count = 0
    with path.open("w") as file:
        written = file.write(START)
        while written < size:
            lines = [
                f'{{"kind":"step","phase":"train","t":{i / 10},"step":{i},"loss":{2 + 4 / i:.6f},"tokens":4096}}\n'
                for i in range(count + 1, count + 10_001)
            ]
            count += len(lines)
            written += file.write("".join(lines))
        file.write(END.replace("9.0", f"{count / 10 + 1}"))
    return count + 2


def peak_memory(page: Page) -> int:
    """Return the most bytes of memory that a process of the browser for pages has ever had."""
    assert page.context.browser is not None
    session = page.context.browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    renderers = [process["id"] for process in processes if process["type"] == "renderer"]
    return max(int(line.split()[1]) * 1024 for pid in renderers for line in peaks(pid))


def peaks(pid: int) -> list[str]:
    """Return the lines of Linux' account of a process that say how large it was at most."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return [line for line in lines if line.startswith("VmHWM")]


def test_large_file(checker: Page, tmp_path: Path) -> None:
    """A log of 100 MB is never held whole, and a check that was cancelled leaves nothing behind."""
    path = tmp_path / "events.jsonl"
    large_log(path, 10_000_000)
    pick(checker, path)
    status(checker)
    before = peak_memory(checker)
    records = large_log(path, 100_000_000)
    pick(checker, path)
    expect(checker.locator("progress[value]")).to_be_visible()
    expect(checker.locator(".tc-running")).to_contain_text(re.compile("[1-9] MB of 10[01] MB"))
    checker.get_by_role("button", name="Cancel").click()
    expect(checker.locator(".tc-status")).to_have_text("Cancelled.")
    expect(checker.locator(".tc-verdict")).to_have_count(0)
    expect(checker.get_by_role("button", name="Choose files")).to_be_focused()
    pick(checker, path)
    assert "1 run: complete · no findings" == status(checker)
    expect(checker.locator(".tc-counts")).to_contain_text(f"{records:,} records".replace(",", "\u202f"))
    assert peak_memory(checker) - before < 90_000_000


def test_keyboard(checker: Page) -> None:
    """The whole page can be used with the keyboard, and shows where the focus is."""
    checker.locator(".tc-invitation").click()
    tab_to(checker, "Choose files")
    assert "none" != checker.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    tab_to(checker, "Try an example")
    checker.keyboard.press("Enter")
    assert "3 runs: 1 complete, 1 torn, 1 damaged · 3 errors, 2 warnings" == status(checker)
    tab_to(checker, "runs/llama-002/events.jsonl")
    checker.keyboard.press("Enter")
    expect(checker.locator(".tc-path")).to_be_focused()
    expect(checker.locator(".tc-path")).to_have_text("runs/llama-002/events.jsonl")
    tab_to(checker, "unterminated-line")
    checker.keyboard.press("Enter")
    expect(checker.get_by_role("heading", level=1)).to_contain_text("unterminated-line")


def tab_to(page: Page, text: str) -> None:
    """Press the tabulator until what has the focus says *text*."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if text in page.evaluate("document.activeElement.textContent"):
            return
    pytest.fail(f"no way to {text}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(watch: Watch, scheme: Any) -> None:
    """On a phone nothing is wider than the screen, in both schemes."""
    page = opened(watch.new_page(PHONE, scheme))
    page.get_by_role("button", name="Try an example").click()
    status(page)
    for stream in page.locator(".tc-stream").all():
        stream.click()
        assert PHONE[0] == page.evaluate("document.documentElement.scrollWidth")


def test_page_without_the_checker(page: Page) -> None:
    """Where the site was built without npm the page says that, and what to do instead."""
    stub = Path(__file__).resolve().parents[4] / "reference" / "typescript" / "page" / "left-out.js"
    page.route("**/checker/page/main.js", lambda route: route.fulfill(path=stub, content_type="text/javascript"))
    page.goto(CHECK)
    expect(page.locator("#toyspec-checker")).to_contain_text("toyspec check FILE")
    expect(page.locator(".tc-input")).to_have_count(0)


def test_choice_of_rules(checker: Page) -> None:
    """Where there are many findings those of one rule can be looked at alone."""
    pick_text(checker, START + "[1]\n" * 5 + '{"a":NaN}\n' * 5)
    status(checker)
    expect(checker.locator(".tc-finding")).to_have_count(11)
    checker.get_by_role("button", name="non-finite-number 5").click()
    expect(checker.locator(".tc-finding")).to_have_count(5)
    checker.get_by_role("button", name="all 11").click()
    expect(checker.locator(".tc-finding")).to_have_count(11)


def test_many_runs(checker: Page, tmp_path: Path) -> None:
    """A list of many runs opens step by step, begins with what is wrong, and can leave out what is right."""
    for number in range(230):
        run = tmp_path / "runs" / f"run-{number:03}"
        run.mkdir(parents=True)
        (run / "events.jsonl").write_text(START.replace("demo", run.name) + (GLUED if number == 215 else "") + END)
    pick_folder(checker, tmp_path / "runs")
    status(checker)
    expect(checker.locator(".tc-path")).to_have_text("runs/run-215/events.jsonl")
    expect(checker.locator(".tc-stream")).to_have_count(200)
    checker.get_by_role("button", name="Show 30 more").click()
    expect(checker.locator(".tc-stream")).to_have_count(230)
    expect(checker.locator(".tc-stream[aria-pressed=true]")).to_contain_text("run-215")
    checker.get_by_label("only runs with findings").check()
    expect(checker.locator(".tc-stream")).to_have_count(1)
