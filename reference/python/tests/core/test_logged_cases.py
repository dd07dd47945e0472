"""Programs of a few lines, which set ``found`` to what is read back of what they log."""

from __future__ import annotations

import contextlib
import io
import json
import os
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import toyspec
from toyspec.core.command_line.main import main

pytestmark = pytest.mark.contended


class Case(NamedTuple):
    """A program and what becomes of what it logs."""

    name: str
    program: str
    after: Any


def begun(run_id: str = "a", **options: Any) -> toyspec.RunWriter:
    """Return a run in the working directory."""
    return toyspec.start_run("runs", run_id=run_id, git=None, **options)


def records(run_id: str = "a", kind: str | None = None) -> list[dict[str, Any]]:
    """Return the records of a run, those of one *kind* if it is given."""
    found = [dict(record.value) for record in toyspec.read(f"runs/{run_id}")]
    return [each for each in found if kind in (None, each["kind"])]


def table(run_id: str = "a", *names: str) -> dict[str, list[Any]]:
    """Return the history of a run."""
    return {name: list(cells) for name, cells in toyspec.history(f"runs/{run_id}", names or None).items()}


def shown(*arguments: str) -> tuple[int, str]:
    """Return the exit status of a command, and what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main(list(arguments))
    return status, out.getvalue()


NAMES = {name: value for name, value in globals().items() if not name.startswith("_")}
NAMES |= {"json": json, "np": np, "os": os}

CASES = [
    Case(
        "resumed, and logged by `run.log(…, step=s)` alone: 1 to 10, then 6 to 12",
        """
        for steps in (range(1, 11), range(6, 13)):
            with begun(exist="resume") as run:
                for s in steps:
                    run.log({"loss": 1 / s}, step=s)
        found = [each["from_step"] for each in records(kind="run_resume")], table()["step"] == list(range(1, 13))
        """,
        ([5], True),
    ),
    Case(
        'a thousand `run.log({"loss": 2.5, "acc": 0.5, "done": False})`',
        """
        with begun() as run:
            for _ in range(1000):
                run.log({"loss": 2.5, "acc": 0.5, "done": False})
        found = len(records(kind="scalars")), set(table()["done"])
        """,
        (1000, {0.0}),
    ),
    Case(
        "`log(loss=…)`, `log({…}, 5)` and `log({…})`",
        """
        with begun() as run:
            run.log(loss=2.5)
            run.log({"loss": 2.0}, 5)
            run.log({"loss": 1.5})
        found = table()
        """,
        {"step": [1, 5, 6], "loss": [2.5, 2.0, 1.5]},
    ),
    Case(
        '`artifact("/etc/passwd")` and `artifact("../x")`',
        """
        with begun() as run:
            run.artifact("/etc/passwd")
            run.artifact("../x")
        found = [each["kind"] for each in records()][1:-1]
        """,
        ["reference", "reference"],
    ),
    Case(
        "the 201st of 250 metrics",
        """
        with begun() as run:
            for s in (1, 2):
                run.log({f"m{n}": n + s for n in range(250)}, step=s)
        named = shown("plot", "runs/a", "--metric", "m200", "-o", "m.svg")[0]
        found = table("a", "m200")["m200"], toyspec.list_runs("runs").best("m200", goal="max").facts.run_id, named
        """,
        ([201.0, 202.0], "a", 0),
    ),
    Case(
        "`to_pandas` of a run with name, group, tags and an error",
        """
        with contextlib.suppress(ValueError), begun(name="first", group="g", tags=["t"]) as run:
            raise ValueError("bad")
        row = toyspec.list_runs("runs").to_pandas().iloc[0]
        found = [row[each] for each in ("run_id", "name", "group", "error")]
        """,
        ["a", "first", "g", "ValueError: bad"],
    ),
    Case(
        "the values of a run that logs by `log`, as a frame",
        """
        with begun() as run:
            for s in (1, 2):
                run.log({"loss": 1 / s, "acc": s}, step=s)
        found = toyspec.history("runs/a").to_pandas().to_dict("list")
        """,
        {"step": [1, 2], "loss": [1.0, 0.5], "acc": [1.0, 2.0]},
    ),
    Case(
        "`to_pandas`, where a metric was logged in the middle and was best there",
        """
        with begun() as run:
            run.define("val/acc", goal="max")
            run.log({"once": 7.0, "val/acc": 0.9}, step=1)
            for s in (1, 2):
                run.step(s, loss=1 / s)
            run.log({"val/acc": 0.5}, step=2)
        row, listed = toyspec.list_runs("runs").to_pandas().iloc[0], toyspec.list_runs("runs")[0]
        found = [row["last.once"], row["last.val/acc"], row["best.val/acc"], listed.metrics["val/acc"].best]
        """,
        [7.0, 0.5, 0.9, 0.9],
    ),
    Case(
        "a path, and a masked number",
        """
        with begun() as run:
            run.log({"best": Path("ckpt/3"), "mean": np.ma.array([1.0], mask=[True]).mean()})
        values = records(kind="scalars")[0]
        found = values["texts"], values["values"]
        """,
        ({"best": "ckpt/3"}, {"mean": None}),
    ),
    Case(
        "RL: two calls at one step, each with its own count of frames",
        """
        with begun() as run:
            run.step(1, loss=1.0)
            run.log({"return": 5.0, "frames": 8})
            run.log({"kl": 0.25, "frames": 9})
        found = dict(toyspec.history("runs/a", ["frames", "kl"]))
        """,
        {"step": [1, 1], "frames": [8.0, 9.0], "kl": [None, 0.25]},
    ),
    Case(
        "the next day, checkpoint 5 of 15 is evaluated by `run.log(…, step=5)`, and a result is logged without a step",
        """
        with begun() as run:
            for s in range(1, 16):
                run.step(s, loss=1 / s)
                run.log({"acc": s / 20})
        with begun(exist="resume") as run:
            run.log({"acc": 0.75, "f1": 0.5}, step=5)
            run.log({"cost": 7.0})
        columns = table()
        steps = [step for step, loss in zip(columns["step"], columns["loss"]) if loss is not None]
        added = [(step, f1, cost) for step, f1, cost in zip(columns["step"], columns["f1"], columns["cost"])][15:]
        found = steps == list(range(1, 16)), added, run.last_step
        """,
        (True, [(5, 0.5, None), (15, None, 7.0)], 15),
    ),
    Case(
        "the same, by a program without `step` records; then the training goes on from step 4",
        """
        with begun() as run:
            for s in range(1, 16):
                run.log({"loss": 1 / s}, step=s)
        with begun(exist="resume") as run:
            run.log({"f1": 0.5}, step=5)
        ended, steps = records(kind="run_end")[-1]["final_step"], table("a", "loss")["step"]
        with begun(exist="resume") as run:
            run.log({"f1": 0.75}, step=5)
            run.log({"loss": 2.0}, step=4)
        columns = table()
        found = ended, steps == list(range(1, 16)), columns["step"], columns["loss"][3:], columns["f1"][3:]
        """,
        (15, True, [1, 2, 3, 4, 5], [2.0, None], [None, 0.75]),
    ),
    Case(
        "resumed: values without a step, and an `eval` of step 9, before the first step, which is 6 of 15",
        """
        with begun() as run:
            for s in range(1, 16):
                run.step(s, loss=1.0)
        with begun(exist="resume") as run:
            run.log({"rate": 0.5})
            run.eval("test", step=9, loss=3.0)
            run.step(6, loss=2.0)
        columns = table()
        found = columns["step"], columns["loss"], columns["rate"][5], columns["test/loss"][7]
        """,
        ([1, 2, 3, 4, 5, 5, 6, 9], [1.0, 1.0, 1.0, 1.0, 1.0, None, 2.0, None], 0.5, 3.0),
    ),
    Case(
        "`step(loss=…)` with a mapping of parts, and one whose extra has that name",
        """
        with begun() as run:
            run.step(1, loss={"box": 1.0, "class": {"coarse": 2.0}}, lr=0.5)
            run.step(2, loss={"box": 1.0}, extra={"loss": 3.0})
        columns = table()
        found = columns["lr"], columns["loss/box"], columns["loss/class/coarse"], run.dropped, dict(run.left_out)
        """,
        ([0.5, None], [1.0, None], [2.0, None], 0, {"loss/box": 1}),
    ),
    Case(
        "`show` of a run with texts, a picture, samples, an alert, and values that were left out",
        """
        with begun() as run:
            run.log({"words": "long " * 20, "picture": toyspec.Image(np.zeros((2, 2))), "bad": object()}, step=3)
            run.sample("p", "text", step=3, reward=0.5)
            run.sample("p", "text", step=4, reward=1.0)
            run.alert("too high", rule="own", level="warning")
        lines = [line.split("  ") for line in shown("show", "runs/a")[1].splitlines()]
        sorts = ("text", "media", "sample", "alert", "left out")
        found = [[part.strip() for part in line if part.strip()] for line in lines if line[1] in sorts]
        """,
        [
            ["text", "words", "long " * 11 + "long…"],
            ["media", "picture", "image/png"],
            ["sample", "2"],
            ["alert", "own", "too high"],
            ["left out", "1 value, as notes of the log count them: 1 bad"],
        ],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[each.name for each in CASES])
def test_a_case_is_as_the_table_says(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program of the case reads back is what its row says."""
    monkeypatch.chdir(tmp_path)
    assert case.after == result_of(case)


def result_of(case: Case) -> Any:
    """Run the program of a *case*; return what it found."""
    names = dict(NAMES)
    exec(textwrap.dedent(case.program), names)
    return names["found"]
