"""A log that no dialect describes gets a dialect that reads it."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest

from toyspec import check, read, start_run
from toyspec.cli import exit_codes
from toyspec.cli.main import main
from toyspec.format.dialect_proposals import as_read, proposed, toml_of

if TYPE_CHECKING:
    from pathlib import Path

CONSOLE = (
    b"loading\n"
    b"[2025-11-20 10:00:01] my-iter 1/300 | tokens: 4096 | lm loss: 1.05E+01 | grad norm: 5.125 |\n"
    b"[2025-11-20 10:00:02] my-iter 2/300 | tokens: 8192 | lm loss: nan | grad norm: 2.5 |\n"
)
LOGS = {
    "console": (CONSOLE, "my_iter", [1, 2], "lm loss"),
    "words": (b"it 1 of 9 gives cost 2.5\nit 2 of 9 gives cost 2.25\n", "it", [1, 2], "gives_cost"),
    "json": (b'{"u": 1, "reward": 0.25}\n{"u": 2, "reward": 0.5}\n', "u", [1, 2], "reward"),
    "csv": (b"n,cost\n1,0.5\n2,0.25\n", "n", [1, 2], "cost"),
    "colours and tabs": (
        b"\x1b[1mround 1\x1b[0m\tcost: 2.5\n\x1b[1mround 2\x1b[0m\tcost: 2.25\n",
        "round",
        [1, 2],
        "cost",
    ),
    "lines of several shapes": (
        b"0 val 10.5\n0 train 10.25\n1 train 9.5\n2 train 9.25\n2 val 9.0\n",
        "value_0",
        [0, 0, 1, 2, 2],
        "val",
    ),
    "a line for each metric": (
        b"=== Step 1/9 ===\n  * Loss: 0.5\n  * Avg Reward: 0.25\n=== Step 2/9 ===\n  * Loss: 0.25\n",
        "step",
        [1, 1, 1, 2, 2],
        "value_1",
    ),
    "times within a line": (
        b"at 10:00:00 round 1 eta 1:00:00 cost 2.5\nat 10:00:01 round 2 eta 0:59:59 cost 2.25\n",
        "round",
        [1, 2],
        "cost",
    ),
    "dates in place of a step": (
        b"train loss=2.5,acc=0.5 1700000000000000000\ntrain loss=2.25,acc=0.25 1700000001000000000\n",
        "record",
        [0, 1],
        "acc",
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_proposal_reads_the_log(name: str) -> None:
    """The step and a metric are found, and the TOML that is written says the same."""
    data, step, steps, metric = LOGS[name]
    table = proposed(data, "*.log")
    assert table is not None
    assert table == tomllib.loads(toml_of("a", table))["dialects"]["a"]
    read_as, rows = as_read(table, data)
    assert (step, steps) == (read_as.step, [row[step] for row in rows])
    assert metric in rows[0]


@pytest.mark.parametrize("data", [
    b"", b"nothing\n", b'{"a":1,"b":2}\n', b"1\n2\n3\n",
    # Two headers, and rows of another table under a header.
    b"train,train,val\nloss,acc,loss\n2.5,0.1,2.6\n2.25,0.2,2.4\n",
    b"GPU loss acc\nLoading\n 1 of the 7 now\n done\n all 0.5 0.25\n done, and more\n done\n end\n that is all\n",
])  # fmt: skip
def test_nothing_is_proposed_where_nothing_repeats(data: bytes) -> None:
    """One record, text, and a single column of numbers are not a log that a guess could read."""
    assert proposed(data, "*") is None


def test_command_adds_the_dialect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is read by it then; a second dialect of the name, and a file without records, are refused."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm-1.out").write_bytes(CONSOLE)
    assert main(["dialect", "new", "--dry-run", "slurm-1.out"]) == exit_codes.OK
    assert not (tmp_path / "toyspec.toml").exists()
    assert main(["dialect", "new", "slurm-1.out"]) == exit_codes.OK
    assert "step 1  tokens 4096, lm loss 10.5" in capsys.readouterr().out
    assert main(["check", "--format", "json", "slurm-1.out"]) == exit_codes.OK
    (report,) = json.loads(capsys.readouterr().out)["files"]
    assert ("slurm", "my_iter") == (report["dialect"]["name"], report["dialect"]["step"])
    assert main(["dialect", "new", "slurm-1.out"]) == exit_codes.USAGE
    (tmp_path / "other.out").write_bytes(b"nothing\n")
    assert main(["dialect", "new", "other.out"]) == exit_codes.USAGE


def test_stream_of_toyspec_needs_no_dialect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused, and nothing is written: a dialect for it would read it as the log of another program."""
    monkeypatch.chdir(tmp_path)
    with start_run(tmp_path, run_id="a") as run:
        for step in range(1, 5):
            run.step(step, loss=0.5)
    (tmp_path / "a/events.jsonl").rename("events.jsonl")
    assert main(["dialect", "new", "events.jsonl"]) == exit_codes.USAGE
    assert "events.jsonl is a toy/v1 stream, which every command reads" in capsys.readouterr().err
    assert not (tmp_path / "toyspec.toml").exists()


def test_planned_steps_decide_whether_a_run_ended(tmp_path: Path) -> None:
    """A log that stops before its planned step has not ended; one that reached it has; others do not say."""
    line = '{"current_steps": %d, "total_steps": 3, "loss": 2.5}\n'
    for steps, ended in ((2, "no"), (3, "yes")):
        path = tmp_path / f"{ended}.jsonl"
        path.write_text("".join(line % step for step in range(1, steps + 1)), encoding="utf-8")
        (report,) = check(path).files
        assert report.dialect is not None
        assert ended == report.dialect.ended
        assert (ended == "no") == ("not ended: step 2 of 3 planned" in report.dialect.sentence)
        assert (exit_codes.FINDINGS if ended == "no" else exit_codes.OK) == main(
            ["check", "--require-complete", str(path)]
        )
    state = b'{"global_step": 1500, "max_steps": 8660, "log_history": [{"step": 1500, "loss": 2.0}]}'
    reading = read(state, mode="salvage")
    assert reading.report.dialect is not None
    assert "no" == reading.report.dialect.ended
