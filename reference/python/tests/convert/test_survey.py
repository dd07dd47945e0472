"""What lies in a folder, format by format: the whole answer on a folder of a few files of each sort."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import msgspec
import pytest

from toyspec.convert.survey import Survey, survey
from toyspec.core.reading.log_detection import DialectChoice, may_be_log

TOY = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n'
CSV = b"step,loss\n1,2.5\n2,2.25\n"
CONSOLE = b"step 1: loss 2.5\nstep 2: loss 2.25\n"
UNKNOWN = b"it 1 of 9 gives cost 2.5\nit 2 of 9 gives cost 2.25\n"
FILES = {
    "a/events.jsonl": TOY,
    "a/flow.json": b"{}",
    "b/events.jsonl": TOY,
    "b/notes.md": CONSOLE,
    "c/log.csv": CSV,
    "c/log.csv.gz": gzip.compress(CSV, mtime=0),
    "c/1.csv": CSV,
    "c/2.csv": CSV,
    "c/train.log": CONSOLE,
    "d/damaged.gz": b"\x1f\x8b\x08",
    "d/cut.parquet": b"PAR1data",
    "d/archive.bin": b"PK\x03\x04rest\n",
    "e/job-1.out": UNKNOWN,
    "e/job-2.out": UNKNOWN,
    "e/one.out": UNKNOWN,
    "e/words-1.txt": b"nothing\n",
    "e/words-2.txt": b"nothing\n",
    "e/run.json": b"{}",
    "f/pyvenv.cfg": b"",
    "f/lib/x.csv": CSV,
    "node_modules/x.csv": CSV,
    ".hidden/x.csv": CSV,
}

GZIP = (
    "the gzip data is cut off after 0 bytes of unpacked log; copy the file again, or read what is there with `gzip -dc`"
)
FORMATS = [
    (
        "profile",
        "toy/v1",
        "toyspec stream, toy/v1",
        "toyspec show",
        None,
        2,
        1,
        122,
        ["./a/events.jsonl", "./b/events.jsonl"],
    ),
    (
        "dialect",
        "console",
        "console output",
        "toyspec show",
        None,
        1,
        0,
        35,
        ["./c/train.log"],
    ),
    (
        "dialect",
        "csv",
        "CSV table",
        "toyspec show",
        '--step-key unless the step is "step"',
        4,
        0,
        110,
        ["./c/1.csv", "./c/2.csv", "./c/log.csv"],
    ),
    ("foreign", "a Parquet file", "a Parquet file", "duckdb", "duckdb", 1, 0, 8, ["./d/cut.parquet"]),
    ("foreign", "a zip archive", "a zip archive", "unzip", "unzip", 1, 0, 9, ["./d/archive.bin"]),
    (
        "unreadable",
        GZIP,
        f"cannot be read: {GZIP}",
        None,
        None,
        1,
        0,
        3,
        ["./d/damaged.gz"],
    ),
]
"""Sort, format, title, command, what it needs, files, files beside them, bytes and examples of each."""
LOGS = [
    "./a/events.jsonl",
    "./b/events.jsonl",
    "./c/1.csv",
    "./c/2.csv",
    "./c/log.csv",
    "./c/log.csv.gz",
    "./c/train.log",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the current directory."""
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "c" / "link.csv").symlink_to("log.csv")
    monkeypatch.chdir(tmp_path)


def found(root: str) -> Survey:
    """Return what is at *root*."""
    return survey(root, DialectChoice())


@pytest.mark.usefixtures("folder")
def test_each_file_is_counted_once() -> None:
    """Streams with the files of their bundles, logs by their dialect, damage by its cause, and what repeats."""
    seen: list[int] = []
    result = survey("a", DialectChoice(), seen.append)
    assert ([1, 2], 2) == (seen, result.files)
    result = found(".")
    assert FORMATS == list(map(msgspec.structs.astuple, result.formats))
    assert (7, ["./node_modules", "./f"], 18, LOGS) == (result.others, result.passed_over, result.files, result.logs)


@pytest.mark.usefixtures("folder")
def test_directory_that_cannot_be_listed_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are there, and none is counted twice."""
    scandir = os.scandir

    def refused(path: str) -> object:
        if path == os.path.join(".", "d"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    formats = {each.format: each.examples for each in found(".").formats if each.sort == "unreadable"}
    assert {"Permission denied": [os.path.join(".", "d")]} == formats


NAMES_OF_LOGS = ["a", "a.log", "a.jsonl", "a.csv.gz", "a.ndjson.gz", "events.jsonl", "x/prev", "xwandb/a"]
OTHER_NAMES = [
    "a.py", "a.c", "a.pyc", "a.pl", "a.cmake", "a.crt", "a.png", "a.pt", "a.wandb", "a.lock", "a.map", "a.zst",
    "a.sql", "a.class", "a.service", "a.woff2", "a.arrow", "a.gz", "a.1.gz", "events.jsonl.prev",
    "events.jsonl.prev-2", "events.jsonl.torn-12", "events.jsonl.torn-12-3", "wandb/run/a.csv", "x/mlruns/a.csv",
    "dvclive/a.tsv", ".aim/a",
]  # fmt: skip


def test_names_of_files_that_may_be_logs() -> None:
    """Any name, but those of programs, archives, weights, pictures, side files, and parts of runs of other tools."""
    assert NAMES_OF_LOGS == list(filter(may_be_log, [*NAMES_OF_LOGS, *OTHER_NAMES]))
