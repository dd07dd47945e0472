"""The checker of the site says what `toyspec check` says, word for word."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import toyspec
from toyspec.core.files import resource_path

# Beside the package in a source tree, inside it when it is installed.
sys.path.insert(0, os.path.dirname(resource_path("conformance")))

from conformance.loading import load

PACKAGE = Path(__file__).resolve().parents[4] / "reference" / "typescript"
# Python takes this character, which no text has, for one of two columns.
ODD_WIDTH = "\U0010ffff".encode()


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the program that checks as the page does, built from the present sources."""
    npm = shutil.which("npm")
    if npm is None:
        reason = "npm is not installed (apt install npm · brew install node · winget install OpenJS.NodeJS)"
        # Only the Linux runners are set up for it; elsewhere the package alone is tested.
        if "CI" in os.environ and sys.platform == "linux":
            pytest.fail(reason)
        pytest.skip(reason)
    if not (PACKAGE / "node_modules").exists():
        subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund"], cwd=PACKAGE, check=True)
    done = subprocess.run([npm, "run", "--silent", "build"], cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return PACKAGE / "dist" / "probe" / "page-reports.js"


def page_report(program: Path, *, files: list[str], folders: list[str]) -> dict[str, str]:
    """Return what the page makes of *files* and *folders* of the current directory, as JSON and as text."""
    request = {
        "files": [packed(Path(name)) for name in files],
        "folders": [
            [name, [packed(path) for path in sorted(Path(name).rglob("*")) if path.is_file()]] for name in folders
        ],
    }
    done = subprocess.run(
        ["node", str(program)], input=json.dumps(request) + "\n", capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def packed(path: Path) -> list[str]:
    """Return the file at *path* as it is handed over."""
    return [path.as_posix(), base64.b64encode(path.read_bytes()).decode()]


def differing_lines(expected: str, actual: str) -> list[tuple[str, str]]:
    """Return the pairs of lines that differ, and the rest of the longer text."""
    left, right = expected.split("\n"), actual.split("\n")
    length = max(len(left), len(right))
    pairs = zip(left + [""] * (length - len(left)), right + [""] * (length - len(right)), strict=True)
    return [pair for pair in pairs if pair[0] != pair[1]]


def checked(*arguments: str) -> str:
    """Return what ``toyspec check`` prints; the page reads no dialects."""
    return toyspec("check", "--dialect", "none", *arguments).stdout.decode()


def write_corpus() -> None:
    """Write every case of the corpus, families expanded, as a bundle below ``corpus``, some below ``odd``."""
    for number, case in enumerate(case for case in load() if not case.follow):
        folder = Path("odd" if ODD_WIDTH in case.data else "corpus", f"{number:05}")
        folder.mkdir(parents=True)
        for name, data in case.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
        if case.stream and not (folder / case.stream).exists():
            (folder / case.stream).write_bytes(case.data)


def test_report_on_the_corpus(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every case of the corpus the page has the report of the command, to the byte."""
    monkeypatch.chdir(tmp_path)
    write_corpus()
    for folder in ("corpus", "odd"):
        actual = page_report(program, files=[], folders=[folder])
        assert [] == differing_lines(plain(checked("--format", "json", folder)), plain(actual["json"]))
        if folder == "corpus":
            assert actual["json"].count('"path":') > 4000
            assert [] == differing_lines(plain(checked("-v", folder)), plain(actual["text"]))


def plain(report: str) -> str:
    """Return *report* without what is wrong with gzip data, which browsers do not say."""
    return re.sub("the gzip data is [^;]+;[^`]+", "the gzip data is not whole: ", report)


@pytest.mark.parametrize("name", ["log.txt", "events.jsonl", "metrics.jsonl"])
def test_report_on_a_file(program: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of its own is checked as if it was named, whatever it is called."""
    monkeypatch.chdir(tmp_path)
    for data in (b"", b"{}\n", b'{"kind":"note"', b'{"kind":"stp","t":1}\n{"kind":"stp","t":1}\n', b"\0" * 40):
        Path(name).write_bytes(data)
        expected = json.loads(checked("--format", "json", name))
        actual = json.loads(page_report(program, files=[name], folders=[])["json"])
        assert without_mismatch(expected) == without_mismatch(actual)


def without_mismatch(report: dict[str, Any]) -> dict[str, Any]:
    """Return *report* without what the page cannot know: the name of the directory that a file lies in."""
    for file in report["files"]:
        file["findings"] = [found for found in file["findings"] if found["rule"] != "run-id-mismatch"]
    return report


def ranked(run: bytes, rank: int) -> bytes:
    """Return the first line of the stream of a rank."""
    return b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"%b","rank":%d}\n' % (run, rank)


START = (
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n{"kind":"run_end","t":1.0,"reason":"completed"}\n'
)
ODD = {
    "runs/a/events.jsonl": START,
    "runs/b/events.jsonl": START,
    "runs/b/flow.json": b'{"a":1,}',
    "runs/b/run.json/inner.txt": b"",
    "runs/a/deep/metrics.jsonl": b'{"step":1,"wall_time_ms":1}\n',
    "runs/a/deep/events.jsonl": b"",
    "runs/a/deep/run.json": b'{\n"schema_version":2,\n"run_id":"x"}\n',
    "runs/notes.txt": b"not a stream",
    "runs/c/events.jsonl": b'{"type":"user","message":"hi"}\n',
    "runs/d/events.jsonl.gz": gzip.compress(START.replace(b'"a"', b'"d"') + b'{"kind"'),
    "none/readme.txt": b"",
    "sidecars/flow.json": b"{}",
    "foreign/deep/metrics.jsonl": b"step,loss\n1,2\n",
    "ranks/a/events.jsonl": ranked(b"a", 0),
    "ranks/a/events.jsonl.gz": ranked(b"a", 3),
    "ranks/a/events.rank-10.jsonl": ranked(b"a", 10),
    "ranks/a/events.rank-2.jsonl": ranked(b"b", 1),
    "ranks/a/events.rank-03.jsonl": ranked(b"a", 3),
    "ranks/b/events.rank-1.jsonl": ranked(b"b", 1),
}
"""Files of bundles, by their paths."""


def test_report_on_odd_bundles(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sidecars, names of directories, ranks and folders without a stream take part as they do for the command."""
    monkeypatch.chdir(tmp_path)
    for path, data in ODD.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)
    folders = ["runs", "none", "sidecars", "foreign", "ranks"]
    told = checked("-v", *folders)
    expected = checked("--format", "json", *folders)
    actual = page_report(program, files=[], folders=folders)
    assert [] == differing_lines(expected, actual["json"])
    assert [] == differing_lines(told, actual["text"])
    for rule in ("stream-missing", "run-id-mismatch", "sidecar-unreadable", "skipped"):
        assert rule in told
    assert ["events.jsonl", "events.rank-2.jsonl", "events.rank-10.jsonl", "events.jsonl.gz"] == [
        Path(file["path"]).name for file in json.loads(expected)["files"] if file["path"].startswith("ranks/a")
    ]
    for rule in ("rank-mismatch", "rank-of-another-run"):
        assert expected.count(f'"rule":"{rule}"') == 1
