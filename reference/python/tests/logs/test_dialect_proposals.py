"""A log that no dialect describes gets a dialect that reads it."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toyspec import check, read, start_run
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.logs.proposals import as_read, proposed, toml_of

CONSOLE = (
    b"loading\n"
    b"[2025-11-20 10:00:01] my-iter 1/300 | tokens: 4096 | lm loss: 1.05E+01 | grad norm: 5.125 |\n"
    b"[2025-11-20 10:00:02] my-iter 2/300 | tokens: 8192 | lm loss: nan | grad norm: 2.5 |\n"
)
LOGS = [json.loads(line) for line in Path(__file__).parents[1].joinpath("proposals.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("expected", LOGS, ids=lambda each: str(each["about"]))
def test_proposal_reads_the_log(expected: dict[str, Any]) -> None:
    """The members of the dialect, what it reads, and that the TOML has the same, for each log of `proposals.jsonl`."""
    data = expected["log"].encode()
    table = proposed(data, "*.log")
    assert expected["table"] == table
    assert table is not None
    assert table == tomllib.loads(toml_of("a", table))["dialects"]["a"]
    read_as, rows = as_read(table, data)
    assert expected["table"]["step"] == [read_as.step]
    # Text, in which NaN is equal to NaN.
    assert json.dumps(expected["rows"]) == json.dumps(rows)


@given(st.text())
@example("it's \U0001f600\x7f")
def test_any_name_of_a_file_is_in_the_toml(name: str) -> None:
    """Quotes and characters that TOML does not have in a text are escaped."""
    assert {"files": [name]} == tomllib.loads(toml_of("a", {"files": [name]}))["dialects"]["a"]


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


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode on other systems")
def test_name_of_a_file_that_is_not_text_gives_a_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes are as free as the digits of a name, and the project's settings can still be read."""
    monkeypatch.chdir(tmp_path)
    path = os.fsdecode(b"it's-\xff1.out")
    Path(path).write_bytes(CONSOLE)
    assert main(["dialect", "new", "--name", "its", path]) == exit_codes.OK
    settings = tomllib.loads(Path("toyspec.toml").read_text(encoding="utf-8"))
    assert ["it's-*.out"] == settings["dialects"]["its"]["files"]


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
