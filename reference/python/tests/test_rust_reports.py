"""The Rust checker reports what the Python checker reports, words included."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_RUST = _ROOT / "reference/rust/target/debug/toyspec-rs"
_CASES = _ROOT / "conformance/cases"
# Without integers beyond 2^53: in a number field, a message of Python's may show more of their digits.
_VALUES = (
    b"null", b"1.0", b"1e3", b"1.5", b'"x"', b'"\\ud800"', b'"a\\"b\\\\"', b'{"a":1}', b"[1,2]", b"true", b"-1",
    b'"\xc3\xa9\xe2\x80\xae"', b"0.00001", b"NaN", b"1e999", b'"2024-01-01"', b"\xff", b"\xe2\x80",
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _RUST.exists(), reason="toyspec-rs is not built: `cargo build` in reference/rust"),
]


def _report(*command: str, path: Path) -> dict[str, Any]:
    output = subprocess.run([*command, "--format", "json", str(path)], capture_output=True, check=False)
    report: dict[str, Any] = json.loads(output.stdout)
    return report


def _assert_equal_reports(path: Path) -> None:
    rust = _report(str(_RUST), "check", path=path)
    # Only the command in Python reads the logs of other programs.
    python = _report(sys.executable, "-m", "toyspec", "check", "--dialect", "none", path=path)
    ours = {file["path"]: file for file in rust["files"]}
    for file in python["files"]:
        assert ours.pop(file["path"]) == file
    assert ours == {}
    for part in ("errors", "skipped", "summary"):
        assert rust[part] == python[part]


def test_reports_on_the_corpus_are_equal() -> None:
    """Every finding has the same place, message and help in both."""
    _assert_equal_reports(_CASES)


def test_reports_on_broken_streams_are_equal(tmp_path: Path) -> None:
    """So has every finding in streams of the corpus of which values are replaced."""
    chance = random.Random(13)
    streams = sorted(_CASES.rglob("events.jsonl"))
    for number in range(1500):
        data = bytearray(chance.choice(streams).read_bytes()[:4096])
        for _ in range(chance.randint(1, 3)):
            start = data.find(b":", chance.randrange(len(data) + 1)) + 1
            end = min((at for at in (data.find(mark, start) for mark in b",}]\n") if at > 0), default=start)
            data[start:end] = chance.choice(_VALUES)
        run = tmp_path / f"{number:04}"
        run.mkdir()
        (run / "events.jsonl").write_bytes(data)
    _assert_equal_reports(tmp_path)


def test_streams_of_ranks_are_listed_in_order(tmp_path: Path) -> None:
    """The streams of other ranks are listed beside that of rank 0 only, by their numbers."""
    for name in ("a/events.jsonl", "a/events.rank-10.jsonl", "a/events.rank-2.jsonl", "b/events.rank-1.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a","rank":2}\n')
    _assert_equal_reports(tmp_path)
    listed = [Path(file["path"]).name for file in _report(str(_RUST), "check", path=tmp_path)["files"]]
    assert listed == ["events.jsonl", "events.rank-2.jsonl", "events.rank-10.jsonl"]
