"""What `compare` shows of several runs."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import TYPE_CHECKING

import pytest

import toyspec
from core.test_cli_runs import write_run
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["train/loss", "Loss/train", "train_loss_step"])
def test_logged_loss_is_the_loss_of_a_run_without_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """What ls says before and after an import is the same; a run with step records has their loss alone."""
    logged = [{"kind": "scalars", "t": float(at), "step": at, "values": {name: 1 / at}} for at in (1, 2, 4)]
    path = str(write_run(tmp_path / "imported", *logged))
    write_run(tmp_path / "stepped", *logged, {"kind": "step", "t": 5.0, "step": 5})
    assert exit_codes.OK == main(["ls", "--json", str(tmp_path)])
    rows = {row["run_id"]: row for row in json.loads(capsys.readouterr().out)}
    assert (0.25, None) == (rows["imported"]["final_loss"], rows["stepped"]["final_loss"])
    assert exit_codes.OK == main(["compare", path, path])
    assert ["final", "loss", "0.25", "0.25"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("kind", ["one record", "records of their own"])
def test_loss_after_hundreds_of_metrics_is_the_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """A program that logs the norm of each gradient before its loss has a final loss all the same."""
    norms = {f"norm/{index}": 1.0 for index in range(300)}
    parts = [norms | {"train/loss": 0.5}] if kind == "one record" else [norms, {"train/loss": 0.5}]
    logged = [{"kind": "scalars", "t": 0.5, "step": step, "values": part} for step in (1, 2) for part in parts]
    write_run(tmp_path / "run", *logged)
    assert exit_codes.OK == main(["ls", "--json", str(tmp_path)])
    assert 0.5 == json.loads(capsys.readouterr().out)[0]["final_loss"]


def test_lists_and_long_texts_that_differ_look_different(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each shows what makes it another setting, also where that is beyond the width of a cell."""
    for number, betas in enumerate([(0.9, 0.95), (0.9, 0.999)]):
        config = {
            "betas": betas,
            "data": "long/" * 12 + str(number),
            "many": [*range(40), number],
            "warm": [1, 1.0][number],
        }
        with toyspec.start_run(tmp_path, run_id=f"run{number}", git=None, config=config) as run:
            run.step(loss=1.0)
    assert exit_codes.OK == main(["compare", str(tmp_path)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("config.")]
    shown = {line[0]: "".join(line[1:]) for line in lines}
    assert shown["config.betas"] == "[0.9,0.95][0.9,0.999]"
    assert shown["config.data"] == "long/long/long…g/long/long/0long/long/long…g/long/long/1"
    assert shown["config.many"] == "[0,1,2,3,4,5,6…6,37,38,39,0][0,1,2,3,4,5,6…6,37,38,39,1]"
    assert shown["config.warm"] == "11.0"


@pytest.fixture
def accuracies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with two runs of different length; the longer one has a name and an error."""
    monkeypatch.chdir(tmp_path)
    for at, steps in enumerate((3, 5)):
        with (
            contextlib.suppress(RuntimeError),
            toyspec.start_run("runs", run_id=f"r{at}", name="second" if at else None, git=None) as run,
        ):
            for step in range(1, steps + 1):
                run.log(acc=step / 8, step=step)
            if at:
                raise RuntimeError("out of memory")
    return tmp_path


def results(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """Return the cells of each row of a comparison by its name; empty ones are left out."""
    assert exit_codes.OK == main(["compare", "runs"])
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    return {name: cells for name, *cells in rows}


def test_id_name_and_error_are_beside_each_other(accuracies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a comparison, and in a list, where the error is a filter too."""
    found = results(capsys)
    assert (["second"], ["RuntimeError: out of memory"]) == (found["name"], found["error"])
    assert exit_codes.OK == main(["ls", "runs", "--where", "error ~ memory", "--columns", "error"])
    assert 'r1 "second"  complete  errored' in (shown := capsys.readouterr().out)
    assert "RuntimeError: out of memory" in shown
    assert "r0" not in shown


@pytest.mark.parametrize("columns", [20, 50, 200])
def test_runs_that_do_not_fit_a_terminal_are_named(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every width a run has a column or is named as hidden, the last first; a pipe has all."""
    runs = [f"run-of-a-sweep-{number}" for number in range(6)]
    for run in runs:
        (tmp_path / run).mkdir()
        start = {"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": run, "config": {"name": run}}
        (tmp_path / run / "events.jsonl").write_text(json.dumps(start) + "\n")
    assert exit_codes.OK == main(["compare", str(tmp_path)])
    assert runs == capsys.readouterr().out.splitlines()[0].split()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    assert exit_codes.OK == main(["compare", str(tmp_path)])
    shown, _, note = capsys.readouterr().out.partition("hidden for")
    note = " ".join(note.split())
    kept = shown.splitlines()[0].split()
    assert runs[: len(kept)] == kept
    hidden = ", ".join(runs[len(kept) :])
    assert note.startswith(f"lack of room: {hidden}; a pipe gets every column") if hidden else not note
    assert 1 <= len(kept)
