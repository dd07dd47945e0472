"""The page of `toyspec view --edit`: star, annotate one run and several, hide; what is refused is said."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from browser.watching import WIDE, Watch
from toyspec.core.reading.annotations import read_annotations
from view_client import END, START, served, step, write_run


@contextmanager
def editing(browser: Browser, root: Path, place: str = "") -> Iterator[Page]:
    """Open a page at *place* of a server that edits the runs below *root*."""
    with served(root, root.parent / "cache", edit=True) as client:
        watch = Watch(browser, f"http://127.0.0.1:{client.server.port}/")
        page = watch.new_page(WIDE, "light")
        page.goto(f"?token={client.server.token}")
        page.goto(place)
        yield page
        watch.close()
        # The test of a refusal wants one.
        assert [] == [each for each in watch.troubles if "409" not in each]


def runs(tmp_path: Path) -> Path:
    """Make two runs."""
    for name in ("one", "two"):
        write_run(tmp_path / "runs" / name, START, step(1), END)
    return tmp_path / "runs"


@contextmanager
def started(root: Path, port: int) -> Iterator[str]:
    """Start `toyspec view --edit` in a process of its own, whose end closes every connection; yield its address."""
    arguments = [sys.executable, "-m", "toyspec", "view", "--edit", "--port", str(port), str(root)]
    variables = os.environ | {"TOYSPEC_CACHE": str(root.parent / "cache")}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout
            said = process.stdout.readline()
            found = re.search(r"http://localhost(:\d+/\?token=\S+)", said)
            assert found, said
            yield f"http://127.0.0.1{found[1]}"
        finally:
            process.kill()


def await_free(port: int) -> None:
    """Return when *port*, which a server has just left, is free: a connection of another process may have taken it."""
    deadline = time.monotonic() + 300
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            else:
                return


def test_server_that_was_started_again_refuses_the_page_and_reports_it(browser: Browser, tmp_path: Path) -> None:
    """Its token is another one: the page says which address to open, not that no server answers."""
    root = runs(tmp_path)
    context, another = browser.new_context(), browser.new_context()
    page, refused = context.new_page(), another.new_page()
    with started(root, 0) as address:
        port = int(address.partition("?")[0].rstrip("/").rpartition(":")[2])
        page.goto(address)
        expect(page.locator(".row .name")).to_have_count(2)
        refused.goto(f"http://127.0.0.1:{port}/?token=wrong")
        expect(refused.locator("body")).to_contain_text("a token is needed")
    message = page.locator(".message").first
    expect(message).to_contain_text("The server does not answer")
    await_free(port)
    with started(root, port):
        expect(message).to_contain_text("open the address that `toyspec view` printed")
    context.close()
    another.close()


def test_star_in_the_table(browser: Browser, tmp_path: Path) -> None:
    """A click on the star of a row marks the run, and another one removes the mark; the selection stays."""
    root = runs(tmp_path)
    with editing(browser, root, "#runs") as page:
        star = page.get_by_role("button", name="Star one")
        expect(star).to_have_attribute("aria-pressed", "false")
        star.click()
        expect(page.locator(".star", has_text="★")).to_have_count(1)
        assert 1 == sum(read_annotations(str(each / "events.jsonl")).starred for each in root.iterdir())
        expect(page.locator(".row.is-selected")).to_have_count(0)
        page.locator(".star", has_text="★").click()
        expect(page.locator(".star", has_text="★")).to_have_count(0)


def test_edit_on_the_page_of_a_run(browser: Browser, tmp_path: Path) -> None:
    """The dialog of a run writes what was changed; text of a log or an annotation is never HTML."""
    root = runs(tmp_path)
    with editing(browser, root, "#run/one") as page:
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Name", exact=True).fill("<b>good</b>")
        page.get_by_label("Tags, separated by commas").fill("a, b")
        page.get_by_label("Notes").fill("bad shard")
        page.get_by_label("Starred").check()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("dialog")).to_have_count(0)
        expect(page.locator(".run-title h2")).to_have_text("<b>good</b>")
        expect(page.locator(".run-title .tag")).to_have_text(["a", "b"])
        said = read_annotations(str(root / "one" / "events.jsonl"))
    assert ("<b>good</b>", None, "bad shard", ("a", "b"), True) == (
        said.name, said.group, said.notes, said.added, said.starred
    )  # fmt: skip


def test_annotate_several_runs(browser: Browser, tmp_path: Path) -> None:
    """The selected runs get a tag and are hidden together."""
    root = runs(tmp_path)
    with editing(browser, root, "#runs") as page:
        page.get_by_label("Select all 2 runs").click()
        page.get_by_role("button", name="Annotate").click()
        page.get_by_label("Add tags, separated by commas").fill("old")
        page.get_by_label("Hide from lists").select_option("yes")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("2 runs hidden")).to_be_visible()
        for name in ("one", "two"):
            said = read_annotations(str(root / name / "events.jsonl"))
            assert (("old",), True) == (said.added, said.hidden)


def test_refusal_is_said(browser: Browser, tmp_path: Path) -> None:
    """Where the annotation cannot be written, the dialog stays open and says why."""
    root = runs(tmp_path)
    with editing(browser, root, "#run/one") as page:
        (root / "one" / "annotations.jsonl").mkdir()
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Name", exact=True).fill("x")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("dialog .message")).to_be_visible()
        expect(page.get_by_label("Name", exact=True)).to_have_value("x")
    shutil.rmtree(root / "one" / "annotations.jsonl")


def test_reading_page_has_no_controls(browser: Browser, tmp_path: Path) -> None:
    """Without --edit there is no star to click and nothing to edit."""
    root = runs(tmp_path)
    with served(root, tmp_path / "cache") as client:
        watch = Watch(browser, f"http://127.0.0.1:{client.server.port}/")
        page = watch.new_page(WIDE, "light")
        page.goto("#run/one")
        expect(page.locator(".run-title h2")).to_be_visible()
        expect(page.get_by_role("button", name="Edit")).to_have_count(0)
        page.goto("#runs")
        expect(page.locator(".row")).to_have_count(2)
        expect(page.locator("button.star")).to_have_count(0)
        watch.close()
        assert [] == watch.troubles
