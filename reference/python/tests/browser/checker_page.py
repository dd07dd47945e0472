"""The page "Check a log" in the hands of a test: gives it files, and takes what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import FilePayload, Page, expect

from command_line import toyspec

START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
END = '{"kind":"run_end","t":9.0,"reason":"completed"}\n'
GLUED = '{"kind":"step","t":1.0,"st{"kind":"step","t":2.0,"step":2}\n'
HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=2</script>"
CHECK = "check/"


def opened(page: Page, fragment: str = "") -> Page:
    """Return *page* at the checker, with *fragment* in its address."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(CHECK + fragment)
    expect(page.get_by_role("button", name="Choose files")).to_be_visible()
    return page


def pick(page: Page, file: Path | FilePayload) -> None:
    """Choose *file* in the dialog for files."""
    page.locator("input[type=file]:not([webkitdirectory])").set_input_files(file)


def pick_text(page: Page, text: str, name: str = "events.jsonl") -> None:
    """Choose a file that holds *text*."""
    pick(page, {"name": name, "mimeType": "", "buffer": text.encode()})


def pick_folder(page: Page, folder: Path) -> None:
    """Choose *folder* in the dialog for folders."""
    page.locator("input[webkitdirectory]").set_input_files(folder)


def status(page: Page) -> str:
    """Return the line that says what came of it, when that is there."""
    expect(page.get_by_role("button", name="Copy as JSON")).to_be_visible()
    text: str = page.locator(".tc-status").inner_text()
    return text


def copied(page: Page, button: str) -> str:
    """Return what *button* puts on the clipboard."""
    status(page)
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def report(page: Page) -> dict[str, Any]:
    """Return the report that the page gives as JSON."""
    made: dict[str, Any] = json.loads(copied(page, "Copy as JSON"))
    return made


def commanded(*arguments: str) -> str:
    """Return what ``toyspec check`` prints."""
    return toyspec("check", *arguments).stdout.decode()


def drop(page: Page, *paths: Path) -> None:
    """Drop *paths* on the page as a file manager does."""
    session = page.context.new_cdp_session(page)
    box = page.locator(".tc-input").bounding_box()
    assert box is not None
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        place = {"x": box["x"] + 20, "y": box["y"] + 20}
        session.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
    session.detach()
