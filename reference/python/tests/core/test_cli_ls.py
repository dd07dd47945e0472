"""The table of `toyspec ls`: filters, columns, order, forms and width."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.command_line.tables import width
from view_client import END, step, write_run

HOSTILE = "\x1b[2J\u202e=cmd()|`x`"


def start(**members: Any) -> bytes:
    """Return the line of a run_start."""
    return json.dumps({"kind": "run_start", "schema": "toy/v1", "t": 0.0, "run_id": "r", **members}).encode() + b"\n"


def evaluated(accuracy: float | None) -> bytes:
    """Return the line of an evaluation, and that of what its metric means."""
    value = {"kind": "eval", "t": 2.0, "step": 2, "name": "val", "extra": {"acc": accuracy}}
    goal = {"kind": "define", "t": 2.0, "name": "val/acc", "goal": "max"}
    return b"".join(json.dumps(each).encode() + b"\n" for each in (goal, value))


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Return a directory with three runs of a sweep, and one without an evaluation."""
    for number, (rate, accuracy) in enumerate([(1e-4, 0.6), (3e-4, 0.8), (1e-2, 0.9)]):
        lines = [
            start(config={"optim": {"lr": rate}}, started_at=f"2026-11-2{number}T10:00:00Z"),
            step(1, 2.0 - number),
        ]
        write_run(tmp_path / f"llama-base-lr{number}-20261121-001", *lines, evaluated(accuracy), END)
    write_run(tmp_path / "llama-base-none-20261121-001", start(), step(1, None))
    return str(tmp_path)


def names(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Return which runs of the sweep `toyspec ls` lists, in its order."""
    assert exit_codes.OK == main(["ls", "--json", *arguments])
    rows = json.loads(capsys.readouterr().out)
    return [row["run"].removeprefix("llama-base-").removesuffix("-20261121-001") for row in rows]


def test_ls_lists_what_meets_a_filter(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A filter compares settings and metrics; several must all be met; words are searched in the name."""
    assert ["lr1"] == names(capsys, "--where", "lr < 1e-3 and val/acc > .7", root)
    assert ["lr2"] == names(capsys, "--where", "val/acc > 70%", "--where", "not (lr = 3e-4)", root)
    assert ["none"] == names(capsys, "--where", "none nan.loss > 0", root)
    assert [] == names(capsys, "--where", "gpt", root)


def test_ls_filters_by_findings(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The findings of a check are counted where a filter or a column asks for them."""
    write_run(Path(root) / "bad", start(), b"x\n", END)
    assert ["bad"] == names(capsys, "--where", "errors > 0", root)
    main(["ls", "--json", "--columns", "errors", root])
    found = {Path(each["path"]).name: each["columns"]["errors"] for each in json.loads(capsys.readouterr().out)}
    assert (1, 0) == (found["bad"], found["llama-base-lr0-20261121-001"])


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (["--sort", "lrr"], "no run has a field 'lrr'; did you mean 'lr'?"),
        (["--where", "end = errored"], "no run has a field 'end'; did you mean 'reason'? (at character 1)"),
        (["--where", "lr < 3x"], '"3x" has an unknown unit; use s, min'),
        (["--where", "lr in 3"], '"in" is not an operator here; write and, or, not,'),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_unknown_name_is_wrong_usage(
    root: str, capsys: pytest.CaptureFixture[str], options: list[str], fact: str
) -> None:
    """A list is not sorted or filtered by what no run has, or by half of what was written."""
    assert exit_codes.USAGE == main(["ls", root, *options])
    assert fact in capsys.readouterr().err


def test_ls_sorts_by_a_metric(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The best value comes first by the goal of the metric; a run without a value is last, whichever way round."""
    assert ["lr2", "lr1", "lr0", "none"] == names(capsys, "--sort", "val/acc", root)
    assert ["lr0", "lr1", "lr2", "none"] == names(capsys, "--sort", "val/acc", "--reverse", root)
    assert ["lr2", "lr1", "lr0", "none"] == names(capsys, "--sort", "lr", "-r", root)
    assert ["lr0", "lr1", "lr2", "none"] == names(capsys, "-r", root)
    assert ["lr2", "lr1"] == names(capsys, "--sort", "val/acc", "-n", "2", root)


def test_ls_says_that_no_run_meets_a_filter(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table is explained."""
    assert exit_codes.OK == main(["ls", "--where", "gpt", root])
    assert "none of 4 runs meets the conditions" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [40, 80, 100, 200])
def test_table_fits_the_terminal(
    columns: int, root: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is wider than the terminal, no two runs look alike, and what was hidden is named."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    main(["ls", "--columns", "val/acc,lr,missing", "-n", "3", root])
    lines = capsys.readouterr().out.splitlines()
    assert all(width(line) <= columns for line in lines)
    assert 3 == len({line.split()[0] for line in lines[1:4]})
    assert "3 of 4 runs" in lines[4]
    assert (columns < 200) == ("hidden for lack of room: " in " ".join(lines))
    assert ("val/acc" in lines[0]) == (columns > 40)
