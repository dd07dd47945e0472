"""Tests of logs that no program is known for: what cannot be known is reported, and no value is wrong in silence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import toyspec
from toyspec.core.generated import rules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Curve = list[tuple[int | None, float]]


class Log(NamedTuple):
    """A log, and what it says."""

    file: str
    text: str
    curves: dict[str, Curve]
    findings: tuple[str, ...] = ()
    note: str = ""


LOGS = {
    "decimal commas": Log("m.csv", "step;loss;lr\n1;2,5;0,001\n2;2,25;1,5e-3\n", {
        "loss": [(1, 2.5), (2, 2.25)], "lr": [(1, 0.001), (2, 0.0015)],
    }),
    "marks between thousands": Log(
        "m.csv", 'step,loss,tokens\n"1,000",2.5,"1,234,567"\n"2,000",2.25,"2,500.5"\n',
        {"loss": [(1000, 2.5), (2000, 2.25)], "tokens": [(1000, 1234567.0), (2000, 2500.5)]},
        note="commas are read as marks between thousands, 1,000 as 1000: step, tokens",
    ),
    "quoted commas that may be either": Log(
        "m.csv", 'step,loss,lr,n\n1,"0,5","0,001",3\n2,"1,234","0,002",4\n',
        {"loss": [], "lr": [], "n": [(1, 3.0), (2, 4.0)]},
        (rules.VALUES_LEFT_OUT, rules.VALUES_LEFT_OUT),
    ),
    "percentages": Log(
        "m.csv", "epoch,loss,acc\n1,2.5,12.5%\n2,2.25,15 %\n3,2.0,-1%\n",
        {"loss": [(1, 2.5), (2, 2.25), (3, 2.0)], "acc": [(1, 12.5), (2, 15.0), (3, -1.0)]},
        note="percentages are read as they are printed, 12.5% as 12.5: acc",
    ),
    "an index without a name": Log(
        "m.csv", ",loss,acc\n0,2.5,0.25\n1,2.25,0.5\n", {"loss": [(0, 2.5), (1, 2.25)], "acc": [(0, 0.25), (1, 0.5)]},
    ),
    "lines of a logger": Log(
        "log.txt", "INFO:root:step 10 loss 2.5 lr 0.001\nINFO:root:step 20 loss 2.0 lr 1e-4\n",
        {"loss": [(10, 2.5), (20, 2.0)], "lr": [(10, 0.001), (20, 1e-4)]},
    ),
    "pairs with blanks and percent signs": Log(
        "log.txt", "epoch 1 loss 2.5 acc 12.5%\nepoch 2 loss 2.0 acc 15%\n",
        {"loss": [(1, 2.5), (2, 2.0)], "acc": [(1, 12.5), (2, 15.0)]},
    ),
    "durations in words": Log(
        "log.txt", "step 1: loss=2.5 eta: 1 day, 0:10:00 took: 2m 30s left: 1h2m\nstep 2: loss=2.0 eta: 3h 2m\n",
        {"loss": [(1, 2.5), (2, 2.0)], "eta": [], "took": [], "left": [], "day": []},
    ),
    "steps with commas": Log(
        "log.txt", "step 1,000 | loss 2.5 | tokens 1,234,567\nstep 2,000 | loss 2.0 | tokens 2,345,678\n",
        {"loss": [(1000, 2.5), (2000, 2.0)], "tokens": [(1000, 1234567.0), (2000, 2345678.0)]},
    ),
    "blanks that align numbers": Log(
        "log.txt", "[rank0]: step:  9  loss: 12.25  gnorm:  2.5\n[rank0]: step: 10  loss:  2.25  gnorm: 11.5\n",
        {"loss": [(9, 12.25), (10, 2.25)], "gnorm": [(9, 2.5), (10, 11.5)]},
    ),
    "epochs from 0 with places": Log(
        "log.txt", "Epoch 0, step 10/100, loss: 2.5\nEpoch 1, step 10/100, loss: 2.0\n",
        {"loss": [(10, 2.5), (110, 2.0)]},
    ),
    "epochs and places in brackets": Log(
        "log.txt", "Epoch: [0] [  0/100] loss: 2.5 eta: 1:00:00\nEpoch: [0] [ 20/100] loss: 2.0 eta: 0:59:00\n",
        {"loss": [(0, 2.5), (20, 2.0)], "eta": []},
    ),
    "episodes": Log(
        "log.txt", "Episode 1\tAverage Score: -200.5\nEpisode 2\tAverage Score: -150.25\n",
        {"Average Score": [(1, -200.5), (2, -150.25)]},
    ),
    "a name with a word for no number": Log(
        "log.txt", "iter 1 | train loss 2.5 | number of nan iterations: 0\niter 2 | train loss nan | of nan: 1\n",
        {"train loss": [(1, 2.5)], "number of nan iterations": [(1, 0.0)], "of nan": [(2, 1.0)], "of": []},
    ),
    "colours in a table": Log(
        "log.txt", "  epoch  loss\n-------  ----\n      1  \x1b[36m2.5\x1b[0m\n      2  \x1b[36m2.0\x1b[0m\n",
        {"loss": [(1, 2.5), (2, 2.0)]},
    ),
    "a table of Markdown": Log(
        "log.md", "| epoch | loss |\n|---|---|\n| 1 | 2.5 |\n| 2 | 2.0 |\n", {"loss": [(1, 2.5), (2, 2.0)]},
    ),
    "pairs in brackets": Log(
        "log.txt", "step 1, now[loss=2.5, b=1.5], total[loss=3.5, b=0.5], lr: 0.1\n",
        {"now/loss": [(1, 2.5)], "now/b": [(1, 1.5)], "total/loss": [(1, 3.5)], "total/b": [(1, 0.5)],
         "lr": [(1, 0.1)]},
    ),
    "units in cells": Log(
        "m.jsonl", '{"step":1,"loss":2.5,"acc":"10%","took":"1.5s","host":"10.0.0.1","at":"12:30:05"}\n',
        {"loss": [(1, 2.5)], "acc": [(1, 10.0)]}, (rules.VALUES_LEFT_OUT,),
        note="numbers in strings are read as numbers: acc",
    ),
    "nested records with lists": Log(
        "m.jsonl", '{"step":7,"m":{"train":{"loss":2.5},"acc":[0.25,0.5]}}\n'
        '{"step":8,"m":{"train":{"loss":2.0},"acc":[1,1]}}\n',
        {"m/train/loss": [(7, 2.5), (8, 2.0)], "m/acc/0": [(7, 0.25), (8, 1.0)], "m/acc/1": [(7, 0.5), (8, 1.0)]},
    ),
    "one nested record": Log("m.jsonl", '{"step":7,"loss":2.5,"acc":[0.25,0.5]}\n', {
        "loss": [(7, 2.5)], "acc/0": [(7, 0.25)], "acc/1": [(7, 0.5)],
    }),
    "phases named by the kind of event": Log(
        "m.jsonl",
        '{"event":"train","step":1,"loss":2.5}\n{"event":"val","step":1,"loss":3.5}\n'
        '{"event":"train","step":2,"loss":2.0}\n',
        {"loss": [(1, 2.5), (2, 2.0)], "val/loss": [(1, 3.5)]},
    ),
    "phases in a column": Log(
        "m.csv", "epoch,split,loss\n1,train,2.5\n1,test,3.5\n2,train,2.0\n2,test,3.0\n",
        {"loss": [(1, 2.5), (2, 2.0)], "test/loss": [(1, 3.5), (2, 3.0)]},
    ),
    "a summary with histories": Log(
        "m.json", '{\n "history": {"loss": [2.5, 2.0], "val_loss": [3.5, 3.0]},\n'
        ' "best": {"epoch": 1, "loss": 2.0}\n}\n',
        {"history/loss": [(0, 2.5), (1, 2.0)], "history/val_loss": [(0, 3.5), (1, 3.0)]},
    ),
    "lists with their steps": Log(
        "m.json", '{"epochs": [10, 20, 30, 40], "loss": [4, 3, 2, 1], "val_loss": [5, 4]}',
        {"loss": [(10, 4.0), (20, 3.0), (30, 2.0), (40, 1.0)]}, note="shorter than the longest list (4), and placed",
    ),
    "lists beside what is none": Log(
        "m.json", '{"loss": [2.5, 2.0], "seed": 7, "name": "a", "hist": [[1, 2], [3, 4]], "note": null}',
        {"loss": [(0, 2.5), (1, 2.0)], "seed": [], "hist": []},
        note="left out, since they are not lists of numbers (2): 'seed', 'hist'",
    ),
    "durations and dates between pairs": Log(
        "log.txt", "step: 1/9, loss: 2.5, eta: 0:01:05, at: 2026-03-01, tok/s: 12.5k\n"
        "step: 2/9, loss: 2.0, eta: 0:00:05, tok/s: 980\n",
        {"loss": [(1, 2.5), (2, 2.0)], "tok/s": [(1, 12500.0), (2, 980.0)], "eta": [], "at": []},
    ),
    "a progress bar that overwrites its line": Log(
        "log.txt", "Epoch 1:  50%|#| 1/2 [00:01<00:01, loss=2.5]\rEpoch 1: 100%|#| 2/2 [00:02<00:00, loss=2.0]\n"
        "Epoch 2: 100%|#| 2/2 [00:02<00:00, loss=1.5]\n",
        {"loss": [(1, 2.0), (2, 1.5)], "loss.1": []},
    ),
    "colours of a terminal": Log(
        "log.txt", "\x1b[36mstep=1\x1b[0m \x1b[1mloss=2.5\x1b[0m\n\x1b[36mstep=2\x1b[0m \x1b[1mloss=2.0\x1b[0m\n",
        {"loss": [(1, 2.5), (2, 2.0)]},
    ),
    "names with blanks between bars": Log(
        "log.txt", "iter 1 | train loss 2.5 | val loss 3.5\niter 2 | train loss 2.0 | val loss 3.0\n",
        {"train loss": [(1, 2.5), (2, 2.0)], "val loss": [(1, 3.5), (2, 3.0)], "loss": []},
    ),
    "capital letters": Log("log.txt", "Step 1 | loss:2.5 lr:3e-4\nStep 2 | loss:2.0 lr:3e-4\n", {
        "loss": [(1, 2.5), (2, 2.0)], "lr": [(1, 3e-4), (2, 3e-4)],
    }),
    "a table that was begun again": Log(
        "m.csv", "step,loss\n1,2.5\n2,2.0\nstep,loss\n1,2.25\n2,1.5\n",
        {"loss": [(1, 2.5), (1, 2.25), (2, 2.0), (2, 1.5)]}, (rules.STEP_GOES_BACKWARDS,),
    ),
    "all spellings of what is not finite": Log(
        "m.csv", "step,loss\n1,nan\n2,-inf\n3,Infinity\n4,n/a\n5,1.#QNAN\n6,1.5\n",
        {"loss": [(6, 1.5)]}, (rules.BAD_FORMAT,),
    ),
    "bytes of a mark, and carriage returns": Log(
        "m.csv", "\ufeffStep ; Train Loss\r\n1 ; 2.5\r\n2 ; 2.0\r\n", {"Train Loss": [(1, 2.5), (2, 2.0)]},
    ),
}  # fmt: skip


def _curve(steps: Sequence[Any], values: Sequence[Any]) -> Curve:
    """Return the finite values with their steps."""
    pairs = zip(steps, values, strict=bool(values))
    return [(step, value) for step, value in pairs if value is not None and math.isfinite(value)]


@pytest.mark.parametrize("name", LOGS)
def test_values_of_a_log_of_no_known_program(name: str, tmp_path: Path) -> None:
    """Each value is in the curve of its name at its step; what is not read has a finding, what is a guess a note."""
    log = LOGS[name]
    path = tmp_path / log.file
    path.write_bytes(log.text.encode())
    values = toyspec.history(path, attempts="all")
    found = {each: _curve(values["step"], values.get(each, [])) for each in log.curves}
    assert log.curves == found
    (report,) = toyspec.check(path).files
    assert list(log.findings) == [finding.rule for finding in report.findings]
    assert report.dialect is not None
    assert log.note in " ".join(report.dialect.notes)
    (run,) = toyspec.import_runs([path], tmp_path / "runs").runs
    assert log.note in " ".join(run.notes)


def test_table_with_other_ends_of_lines_is_of_another_format(tmp_path: Path) -> None:
    """A table without any LF is not a torn stream of toyspec; half a record still is one."""
    (tmp_path / "m.csv").write_text("step,loss\r1,2.5\r2,2.0\r", newline="")
    (tmp_path / "r.jsonl").write_text('{"kind":"run_start","sch')
    (table,), (torn,) = (toyspec.check(tmp_path / each).files for each in ("m.csv", "r.jsonl"))
    assert [rules.UNKNOWN_FORMAT] == [finding.rule for finding in table.findings]
    assert "torn" == torn.state


@pytest.mark.parametrize(("start", "seconds"), [
    ("2026-03-01 10:00:00,250 - train - INFO - ", 0.25), ("[2026-03-01T10:00:00.250Z INFO] ", 0.25),
    ("2026/03/01 10:00:00 | INFO | ", 0.0), ("2026-03-01T10:00:00+02:00 ", -7200.0),
])  # fmt: skip
@pytest.mark.parametrize("line", ["Epoch: 1, Loss: 2.5", "step=1 loss=2.5", "iter 1 | train loss 2.5 | val loss 3.5"])
def test_time_before_a_line_is_its_time(tmp_path: Path, start: str, seconds: float, line: str) -> None:
    """Loggers write the time first; without a zone it is read as UTC."""
    path = tmp_path / "log.txt"
    path.write_text(f"{start}{line}\n{start}{line}\n")
    (row, _) = toyspec.read(path)
    assert isinstance(row, toyspec.Row)
    assert ("unix", 1772359200.0 + seconds) == (row.time_origin, row.time)


def test_table_of_data_with_an_index_is_not_a_log(tmp_path: Path) -> None:
    """Data frames are written with an index too."""
    path = tmp_path / "data.csv"
    path.write_text(",price,size\n0,12.5,3\n1,10.25,4\n")
    assert [] == list(toyspec.list_runs(tmp_path))
    (report,) = toyspec.check(path).files
    assert [rules.UNKNOWN_FORMAT] == [finding.rule for finding in report.findings]


def test_log_without_steps_has_none(tmp_path: Path) -> None:
    """The console output of Hugging Face's Trainer has epochs only: no step is shown that it does not have."""
    path = tmp_path / "train.log"
    path.write_text("{'loss': 2.5, 'epoch': 0.1}\n{'loss': 2.0, 'epoch': 0.2}\n")
    (run,) = toyspec.list_runs(path)
    assert (None, None) == (run.facts.first_step, run.facts.last_step)
    assert ["loss"] == list(run.metrics)
