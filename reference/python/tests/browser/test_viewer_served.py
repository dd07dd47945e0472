"""The viewer over its own server: live, killed and damaged runs, very many and very long ones, and accessibility."""

from __future__ import annotations

import json
import os
import re
import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from browser.axe import findings, need_axe
from browser.viewer_pages import Viewed, arrived, at_rest, drawn, pixels, until
from browser.watching import PHONE, WIDE
from toyspec.view.scanning import ScanWorkers
from view_client import END, START, step, write_run

VIEWS = ("#runs", "#charts", "#compare", "#charts?focus=loss", "#charts?by=config.lr", "#run/whole")


def start(name: str, **members: object) -> bytes:
    """Return the first record of a run."""
    return json.dumps({"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": name, **members}).encode() + b"\n"


def some_runs(root: Path) -> Path:
    """Write a run with records of many kinds, a killed one and a damaged one."""
    others = [
        {"kind": "note", "t": 5.0, "step": 5, "text": "moved"},
        {"kind": "eval", "t": 6.0, "step": 6, "name": "val", "loss": 1.0, "extra": {"acc": 0.5}},
        {"kind": "sample", "t": 7.0, "step": 7, "prompt": "Once", "text": "upon a time"},
        {"kind": "sample", "t": 8.0, "step": 8, "prompt": "Once", "text": "there was"},
        {"kind": "grad", "t": 8.0, "step": 1, "param": "w", "min": 0.0, "max": 1.0, "histogram": [1, 2]},
        {"kind": "grad", "t": 8.0, "step": 2, "param": "w", "min": 0.0, "max": 1.0, "histogram": [2, 2]},
        {"kind": "op_timing", "t": 8.5, "step": 8, "buckets": {"matmul": 8, "rest": 2}},
        {"kind": "region_enter", "t": 8.6, "region": "save"},
        {"kind": "region_exit", "t": 8.9, "region": "save"},
        {"kind": "artifact", "t": 8.9, "path": "model.gguf", "role": "checkpoint"},
        {"kind": "system", "t": 9.0, "step": 9, "gpu_util": 0.5},
    ]  # fmt: skip
    extra = (json.dumps(each).encode() + b"\n" for each in others)
    steps = [step(number, 2 - number / 50) for number in range(1, 41)]
    write_run(root / "whole", start("whole", config={"lr": 0.1, "seed": 1}, tags=["base"]), *steps, *extra, END)
    write_run(root / "killed", start("killed", config={"lr": 0.1, "seed": 2}), *steps[:20], steps[20][:30])
    write_run(
        root / "damaged", start("damaged", config={"lr": 0.2, "seed": 3}), *steps[:9], b"\0\0\n", *steps[10:], END
    )
    return root


def test_live_run_is_drawn_while_it_is_written(viewed: Viewed, tmp_path: Path) -> None:
    """New steps and new runs come to the table and the charts by themselves."""
    stream = write_run(tmp_path / "runs" / "live", START, *(step(number, 1.0) for number in range(1, 11)))
    page, _ = viewed.open(tmp_path / "runs", "#charts")
    drawn(page)
    described = page.locator(".chart .unseen").first
    expect(described).to_contain_text("1111")
    with stream.open("ab") as file:
        file.write(step(11, 0.25))
    expect(described).to_contain_text("0.25")
    write_run(tmp_path / "runs" / "second", START, step(1, 7.0), END)
    expect(page.locator(".row")).to_have_count(2)
    expect(described).to_contain_text("second")


def test_states_and_everything_that_a_run_records(viewed: Viewed, tmp_path: Path) -> None:
    """A killed and a damaged run are named as that; the page of a run has a part for each kind of record."""
    page, client = viewed.open(some_runs(tmp_path / "runs"), "#runs?sort=name")
    client.settled_rows()
    expect(page.locator(".chip")).to_have_text(["damaged", "torn", "complete"])
    page.goto("#run/whole")
    parts = ("Evaluations", "Samples", "Config", "Metadata", "Notes", "Distributions", "Operations", "Regions", "Files")
    for part in parts:
        expect(page.locator(".run-part > h2", has_text=part).first).to_be_visible()
    page.locator("summary", has_text="that say little").click()
    expect(page.locator(".chart h3", has_text="system/gpu_util")).to_be_visible()
    page.goto("#run/damaged")
    finding = page.locator(".finding-error", has_text="nul-bytes")
    expect(finding).to_contain_text("step 9")
    finding.get_by_role("button", name="Line 11").click()
    expect(finding.locator(".raw")).to_have_text("\\x00\\x00")


def test_page_of_a_run_counts_what_is_left_out(viewed: Viewed, tmp_path: Path) -> None:
    """What was not logged, what an import dropped, and lines and files that are not listed are said before all else."""
    note = {"kind": "note", "t": 1.0, "text": "left out", "left_out": {"val/acc": 3}, "dropped": {"step": 2}}
    lines = [json.dumps(note).encode() + b"\n", *[b"lost\n"] * 2001]
    folder = write_run(tmp_path / "runs" / "lossy", start("lossy"), step(1, 1.0), *lines, END).parent
    losses = [{"cause": "damaged", "effect": "dropped", "meaning": "a line cannot be read", "count": 4, "examples": []}]
    report = {"format": "csv", "source": "a", "target": "b", "run_id": "lossy", "item": "cells", "items": 9}
    (folder / "import.json").write_text(json.dumps(report | {"losses": losses}), "utf-8")
    for number in range(2001):
        (folder / f"more-{number}").touch()
    page, _ = viewed.open(tmp_path / "runs", "#run/lossy")
    expected = "This log is not complete: 3 values and 2 records were not logged, and 4 of 9 cells were not imported."
    expect(page.locator(".run-incomplete")).to_have_text(expected)
    rows = page.locator("#part-left-out tbody tr")
    for cells in (["values of val/acc", "3"], ["the kind step", "2"], ["a line cannot be read", "4"]):
        expect(rows.filter(has_text=cells[0]).locator("td").last).to_have_text(cells[1])
    # The stream, the report and 2,001 others.
    expect(rows.filter(has_text="files").locator("td").last).to_have_text("3")
    expect(rows.filter(has_text="gaps").locator("td").last).not_to_have_text("0")
    expect(page.locator("#part-files > h2 .count")).to_have_text("2\N{NARROW NO-BREAK SPACE}003")
    page.goto("#run/missing")
    expect(page.locator(".run-incomplete")).to_have_count(0)


def test_root_that_is_deleted_is_not_an_empty_one(viewed: Viewed, tmp_path: Path) -> None:
    """The page says why it shows no run, shows them again once they are back, and how to begin if there is none."""
    root = tmp_path / "runs"
    write_run(root / "one", start("one"), step(1, 1.0), END)
    page, _ = viewed.open(root, "#charts")
    for is_empty in (False, True):
        expect(page.locator(".chart")).to_have_count(1)
        shutil.move(root, tmp_path / "elsewhere")
        said = "No such file or directory; its runs are shown again once it can be read"
        expect(page.locator(".message").first).to_contain_text(said)
        expect(page.get_by_text("No run can be shown: see the message above.")).to_be_visible()
        expect(page.locator(".first-run")).to_have_count(0)
        if is_empty:
            root.mkdir()
        else:
            shutil.move(tmp_path / "elsewhere", root)
        expect(page.locator(".message").first).to_be_hidden()
    expect(page.locator(".first-run pre")).to_contain_text("toyspec.start_run")


def test_very_many_runs(viewed: Viewed, tmp_path: Path) -> None:
    """Of 1,000 runs only the rows that are seen exist, no chart is empty, and a selection is in colour above them."""
    lines = (START, *(step(at) for at in range(1, 4)), END)
    for number in range(1000):
        write_run(tmp_path / "runs" / f"run-{number:04}", *lines)
    page, client = viewed.open(tmp_path / "runs", "#charts")
    client.settled_rows()
    expect(page.locator(".bar .count")).to_have_text("1\u202f000 runs")
    expect(page.locator(".chart-overlay").first).to_have_attribute("aria-label", re.compile("1\u202f000 runs"))
    assert page.locator(".row").count() < 100
    assert until(page, lambda: pixels(page, "--quiet", 120)), "the envelope and the runs are grey"
    page.locator(".row").first.click()
    assert until(page, lambda: pixels(page, "--run-0", 60)), "the selection has a colour"
    assert pixels(page, "--quiet", 120), "the others stay as an envelope"
    page.keyboard.press("1")
    expect(page.locator(".row.is-selected .spark")).not_to_have_class(re.compile("is-grey"))
    expect(page.locator(".row:not(.is-selected) .spark").first).to_have_class(re.compile("is-grey"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_in_the_way_of_assistive_technology(
    viewed: Viewed, tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    """No view has a finding of axe, however small, light or dark."""
    need_axe()
    page, client = viewed.open(some_runs(tmp_path / "runs"), "#runs", scheme=scheme)
    client.settled_rows()
    found = {}
    for place in VIEWS:
        page.goto(place)
        arrived(page, place)
        if "#charts" in place:
            at_rest(page)
        found[place] = findings(page)
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Help", exact=True)).to_be_visible()
    found["help"] = findings(page)
    assert {} == {place: problems for place, problems in found.items() if problems}


@pytest.mark.parametrize("size", [WIDE, (768, 1024), PHONE], ids=["wide", "tablet", "phone"])
def test_views_fit_the_window(viewed: Viewed, tmp_path: Path, size: tuple[int, int]) -> None:
    """No view scrolls sideways."""
    page, client = viewed.open(some_runs(tmp_path / "runs"), "#runs", size=size)
    client.settled_rows()
    for place in VIEWS:
        page.goto(place)
        arrived(page, place)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], place


def test_names_are_listed_before_the_runs_are_read(
    viewed: Viewed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says how many were read, and those that changed last are read first."""
    for number in range(300):
        stream = write_run(tmp_path / "many" / f"run-{number:03}", START, step(1), END)
        os.utime(stream, ns=(number * 10**9, number * 10**9))
    monkeypatch.setattr(ScanWorkers, "scan", lambda _, works, __: {work.path: Future() for work in works})
    page, client = viewed.open(tmp_path / "many", "#runs?sort=-name")
    expect(page.locator(".bar .count")).to_have_text("300 runs, 100 read")
    expect(page.locator(".row .chip", has_text="unread")).to_have_count(0)
    assert "unread" == client.rows()["run-000"]["state"]
    page.keyboard.press("End")
    expect(page.locator(".row", has_text="run-000").locator(".chip")).to_have_text("unread")
