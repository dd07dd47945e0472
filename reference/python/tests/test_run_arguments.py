"""A directory on the command line stands for the runs below it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from test_cli_runs import steps, write_run
from toyspec.cli import exit_codes, tail
from toyspec.cli.main import main
from toyspec.cli.run_arguments import runs_at
from toyspec.reading.log_detection import DialectChoice

if TYPE_CHECKING:
    from pathlib import Path

END = {"kind": "run_end", "t": 9.0, "reason": "completed"}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Return a directory with the runs a and b, and below it the run c of another program."""
    for index, name in enumerate("ab"):
        write_run(tmp_path / "sweep" / name, *steps(2.0 - index), END)
    other = tmp_path / "sweep" / "more" / "c"
    other.mkdir(parents=True)
    (other / "metrics.jsonl").write_bytes(b'{"step": 1, "loss": 0.5}\n')
    return tmp_path / "sweep"


def test_directory_with_runs_stands_for_them(sweep: Path) -> None:
    """A run stays, and so does what is not there or has no run; a name that was given twice is there twice."""
    choice = DialectChoice()
    below = [str(sweep / "a"), str(sweep / "b"), str(sweep / "more" / "c" / "metrics.jsonl")]
    empty = sweep.parent / "empty"
    empty.mkdir()
    stay = [str(sweep / "a"), str(sweep / "a"), str(sweep / "none"), str(empty), str(sweep / "b" / "events.jsonl")]
    found = runs_at([str(sweep), *stay], choice)
    assert [*below, *stay] == [run.path for run in found]
    assert [str(sweep / "a" / "events.jsonl"), str(sweep / "none"), None] == [
        found[index].stream for index in (0, 5, 6)
    ]


def test_compare_takes_a_directory(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its runs are compared; a directory with one run is one run."""
    assert exit_codes.OK == main(["compare", str(sweep)])
    assert ["final", "loss", "2", "1", "0.5"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert exit_codes.USAGE == main(["compare", str(sweep / "more")])
    assert "at least two runs are needed, got 1; name them, or a directory with runs" in capsys.readouterr().err


def test_tail_takes_a_directory(
    sweep: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its runs is followed once, and too many of them are refused with a way out."""
    assert exit_codes.OK == main(["tail", "--once", "-n", "1", str(sweep), str(sweep / "a")])
    assert ["a", "b", "metrics.jsonl"] == [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setattr(tail, "_MOST_RUNS", 2)
    assert exit_codes.USAGE == main(["tail", "--once", str(sweep)])
    assert "3 runs; name 2 at most, or look at them with `toyspec watch`" in capsys.readouterr().err


def test_show_says_what_the_start_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name and the group that a person gave, notes, tags, arguments and packages."""
    start = {
        "kind": "run_start",
        "schema": "toy/v1",
        "t": 0.0,
        "run_id": "x",
        "name": "base",
        "group": "sweep",
        "notes": "first try",
        "tags": ["a", "b"],
        "argv": ["train.py", "--lr", "1"],
        "packages": {"torch": "2.5"},
    }
    run = write_run(tmp_path / "x")
    (run / "events.jsonl").write_text(json.dumps(start) + "\n", encoding="utf-8")
    assert exit_codes.OK == main(["show", str(run)])
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    for title, text in {
        "name": "base",
        "group": "sweep",
        "notes": "first try",
        "tags": "a, b",
        "argv": "train.py --lr 1",
        "packages": "torch 2.5",
    }.items():
        assert [title, text] in lines
