from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from array import array
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from command_line import toyspec_within as toyspec
from loopback_store import BUCKET, stream
from toyspec.core.checker import checking
from toyspec.core.errors import StreamError
from toyspec.core.runs.run import list_runs
from toyspec.view import report as report_module
from toyspec.view.report import html_report, report
from view_client import END, START, frames, step, write_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopback_store import Store

ROOT = Path(__file__).parents[4]
HOSTILE = "</script><script>alert(1)</script>|`$(x)\\u202e"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with a long run with a spike, and a run whose name is hostile."""
    values = [1000.0 if number == 4321 else number / 10_000 for number in range(10_000)]
    write_run(tmp_path / "runs" / "long", START, *(step(number, value) for number, value in enumerate(values)), END)
    start = json.dumps({"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", "name": HOSTILE}).encode()
    write_run(tmp_path / "runs" / "a|b<i>", start + b"\n", step(1, 2.5), step(2, None))
    return tmp_path / "runs"


def headers(page: str) -> Iterator[dict[str, Any]]:
    """Yield the header of each frame in a report."""
    return (header for header, _ in page_frames(page))


def page_frames(page: str) -> Iterator[tuple[dict[str, Any], dict[str, array[float]]]]:
    """Yield the header and the columns of each frame in a report."""
    text = re.search(r'<script type="text/plain" id="toyspec-data">([A-Za-z0-9+/=]+)</script>', page)
    assert text is not None
    return frames(gzip.decompress(base64.b64decode(text[1])))


def test_page_has_everything_in_it(root: Path) -> None:
    """The data of all runs are in the page, no spike is lost, and what runs is named by its digest."""
    page, number = html_report([str(root)], now=0.0, buckets=100)
    (first, _), *curves = page_frames(page)
    assert (2, "1970-01-01T00:00:00Z") == (number, first["written"])
    assert {"long", "a|b<i>"} == set(first["details"]) == {row["id"] for row in first["listing"]["runs"]}
    long, columns = next(each for each in curves if each[0]["run"] == "long")
    assert (10_000, 1000.0) == (long["points"], max(columns["max"]))
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert ("unsafe" in page.partition("</head>")[0], 2) == (False, page.count("</script>"))
    assert "http://" not in page.partition("<style>")[0]
    written = root.parent / "report.html"
    assert 0 == toyspec("report", str(root), "-o", str(written)).returncode
    assert number < len(list(headers(written.read_text("utf-8"))))


def test_long_runs_are_read_by_several_processes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is the same one, and what was read is reported until all was; what has no format is left out."""
    (root / "empty").mkdir()
    (root / "empty" / "events.jsonl").write_bytes(b"")
    alone = html_report([str(root)], now=0.0, buckets=100)
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(report_module, "ALONE_BYTES", 0)
    monkeypatch.setattr(report_module, "cores", lambda: 3)
    together = html_report([str(root)], now=0.0, buckets=100, on_progress=lambda *each: told.append(each))
    assert alone == together
    size = sum(path.stat().st_size for path in root.rglob("events.jsonl"))
    assert ((size, size), sorted(told)) == (told[-1], told)


def test_run_that_ends_its_process_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no page without a run that was asked for."""
    monkeypatch.setattr(report_module, "ALONE_BYTES", 0)
    monkeypatch.setattr(report_module, "cores", lambda: 2)
    monkeypatch.setattr(report_module, "_reported", lambda *_: os._exit(1))
    with pytest.raises(StreamError, match=r"events\.jsonl.*make the report of the other runs"):
        html_report([str(root)], now=0.0)


@pytest.mark.parametrize("form", ["toy/v1", "gzip", "csv"])
def test_no_value_is_lost_in_a_report(tmp_path: Path, form: str) -> None:
    """A spike is the extreme of the bucket of its step, and what is not finite is counted in its bucket."""
    values = [1.0 + (number * 7919 % 101) / 1000 for number in range(9000)]
    values[4321], values[8123] = 9.0, 0.01
    for number in (5000, 5001, 5090):
        values[number] = nan
    if form == "csv":
        (tmp_path / "a").mkdir()
        rows = (f"{number},{value!r}\n" for number, value in enumerate(values))
        (tmp_path / "a" / "metrics.csv").write_text("step,loss\n" + "".join(rows), "ascii")
    else:
        lines = (step(number, value if isfinite(value) else None) for number, value in enumerate(values))
        path = write_run(tmp_path / "a", START, *lines, END)
        if form == "gzip":
            path.with_name("events.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    page, _ = html_report([str(tmp_path)], now=0.0)
    header, columns = next(frame for frame in page_frames(page) if frame[0].get("metric") == "loss")
    assert (9000, 16) == (header["points"], header["level"])
    found = list(zip(columns["step"], columns["nan"], columns["max"], columns["min"], strict=True))
    assert [4321 // 16] == [int(at) // 16 for at, _, high, _ in found if high > 8]
    assert [8123 // 16] == [int(at) // 16 for at, _, _, low in found if low < 0.5]
    assert [(5000 // 16, 2), (5090 // 16, 1)] == [(int(at) // 16, missing) for at, missing, _, _ in found if missing]


@pytest.mark.posix
def test_action_adds_the_table_and_checks(root: Path, tmp_path: Path) -> None:
    """The steps of the action run as they are written, and fail where the runs have an error."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8") if (ROOT / "action.yml").is_file() else ""
    if not text:
        pytest.skip("the action is part of the source tree")
    steps = map("".join, re.findall(r"      run: (?:\|\n((?:        .*\n)+)|(.*)\n)", text))
    show, check = [step for step in steps if "toyspec ls" in step or "toyspec check" in step]
    summary = tmp_path / "summary"
    variables = {"RUNS": str(root), "METRICS": "loss\n", "FAIL_ON": "error", "GITHUB_STEP_SUMMARY": str(summary)}
    (tmp_path / "toyspec").write_text(f'#!/bin/sh\nexec {sys.executable} -m toyspec "$@"\n')
    (tmp_path / "toyspec").chmod(0o755)
    environment = {**os.environ, **variables, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    for script in (show, check):
        subprocess.run(["bash", "-e", "-c", script], env=environment, check=True, capture_output=True)
    assert "long" in summary.read_text(encoding="utf-8")


def test_report_of_a_run_in_a_store_reads_it_once(store: Store, tmp_path: Path) -> None:
    """The curves, the check and the page of a run ask for its bytes once, but for its first 64 KiB."""
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    data = stream(30_000)
    store.put("runs/a/events.jsonl", data)
    _, number = html_report([f"s3://{BUCKET}/runs"], now=0.0, buckets=100)
    assert 1 == number
    assert len(data) > 2_000_000
    assert len(data) <= store.sent < len(data) + 4 * (1 << 16) + 10_000


def test_report_checks_a_run_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The findings of the table and those of the page of a run are of one check."""
    checked: list[str] = []
    usual = checking.iter_reports

    def noted(paths: list[str], **others: Any) -> Any:
        checked.extend(paths)
        return usual(paths, **others)

    monkeypatch.setattr(checking, "iter_reports", noted)
    html_report([str(root)], now=0.0, buckets=100)
    assert [str(root / name / "events.jsonl") for name in ("a|b<i>", "long")] == sorted(checked)


def test_report_has_the_media_of_its_runs(tmp_path: Path) -> None:
    """The page needs nothing beside it; what a link leads to, and what has another hash, is not in it."""
    contents = [b"\x89PNG of the run", b"\x89PNG from elsewhere", b"\x89PNG of another hash"]
    names = [hashlib.sha256(data).hexdigest() for data in contents]
    media = b'{"kind":"media","t":1.0,"name":"x","media_type":"image/png","sha256":"%b"}\n'
    run = tmp_path / "runs" / "a"
    write_run(run, START, step(1), *(media % name.encode() for name in names for _ in range(2)), END)
    (run / "media").mkdir()
    (tmp_path / "elsewhere").write_bytes(contents[1])
    (run / "media" / f"{names[0]}.png").write_bytes(contents[0])
    (run / "media" / f"{names[1]}.png").symlink_to(tmp_path / "elsewhere")
    (run / "media" / f"{names[2]}.png").write_bytes(b"changed")
    page, _ = html_report([str(run)], now=0.0)
    assert {names[0]: base64.b64encode(contents[0]).decode()} == next(headers(page))["media"]


def test_a_frame_takes_one_run_or_several(root: Path) -> None:
    """A path is one place of runs, not a sequence of letters."""
    given: list[Any] = [root, str(root), [str(root)], next(run for run in list_runs(root) if run.facts.run == "long")]
    shown = [next(headers(report(each, buckets=100).page)) for each in given]
    assert [2, 2, 2, 1] == [len(each["listing"]["runs"]) for each in shown]
