"""A directory on the command line stands for the runs below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.test_cli_runs import steps, write_run
from loopback_store import BUCKET
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.arguments import runs_at
from toyspec.core.command_line.main import main
from toyspec.core.commands import tail
from toyspec.core.reading.log_detection import DialectChoice

if TYPE_CHECKING:
    from pathlib import Path

    from loopback_store import Store

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
    below = [str(sweep / "a"), str(sweep / "b"), str(sweep / "more" / "c")]
    empty = sweep.parent / "empty"
    empty.mkdir()
    stay = [str(sweep / "a"), str(sweep / "a"), str(sweep / "none"), str(empty), str(sweep / "b" / "events.jsonl")]
    found = runs_at([str(sweep), *stay], choice)
    assert [*below, *stay] == [run.path for run in found]
    assert [str(sweep / "a" / "events.jsonl"), str(sweep / "none"), None] == [
        found[index].stream for index in (0, 5, 6)
    ]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (
            "sweep",
            ["sweep/a/events.jsonl", "sweep/a/eval/events.jsonl", "sweep/b/events.jsonl", "sweep/c/metrics.jsonl"],
        ),
        ("sweep/a/", ["sweep/a/events.jsonl"]),
        ("sweep/b/events.jsonl", ["sweep/b/events.jsonl"]),
        ("other", ["other/trainer_state.json"]),
        ("none", ["none"]),
        ("data", [None]),
        ("data/x.bin", ["data/x.bin"]),
    ],
)
def test_address_stands_for_runs(store: Store, named: str, found: list[str | None]) -> None:
    """As a directory does: for its stream, or those below it. None is listed for a stream."""
    names = ["sweep/a/events.jsonl", "sweep/a/metrics.jsonl", "sweep/a/eval/events.jsonl", "sweep/b/events.jsonl"]
    others = ["sweep/c/metrics.jsonl", "other/trainer_state.json", "other/checkpoint-5/trainer_state.json"]
    for name in [*names, *others, "data/x.bin"]:
        store.put(name, b'{"step": 1, "loss": 0.5}\n')
    root = f"s3://{BUCKET}/"
    runs = runs_at([root + named], DialectChoice())
    assert found == [run.stream and run.stream.removeprefix(root) for run in runs]
    assert [root + named] == [run.path for run in runs] or named == "sweep"
    assert len(store.requests) == (0 if named.endswith(".jsonl") else 2 if named in ("sweep", "data") else 1)


def test_list_ends_with_the_stream_of_a_run(store: Store) -> None:
    """What comes after it in the list, checkpoints for example, is not asked for."""
    store.put("run/events.jsonl", b"")
    for number in range(500):
        store.put(f"run/weights/{number}.bin", b"")
    store.page_size = 50
    assert 1 == len(runs_at([f"s3://{BUCKET}/run"], DialectChoice()))
    assert len(store.requests) <= 2


def test_tail_takes_a_directory(
    sweep: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its runs is followed once, and too many of them are refused with a way out."""
    assert exit_codes.OK == main(["tail", "--once", "-n", "1", str(sweep), str(sweep / "a")])
    assert ["a", "b", "more/c"] == [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setattr(tail, "_MOST_RUNS", 2)
    assert exit_codes.USAGE == main(["tail", "--once", str(sweep)])
    assert "3 runs; name 2 at most, or look at them with `toyspec watch`" in capsys.readouterr().err
