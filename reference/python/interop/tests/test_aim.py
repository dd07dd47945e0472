"""Aim: written by its SDK and imported."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from command_line import toyspec
from conversions import SAMPLES, imported, losses, records

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import aim
run = aim.Run(repo=".", experiment="exp", log_system_params=False, system_tracking_interval=None,
              capture_terminal_logs=False)
run["hparams"] = {"lr": 0.5, "net": {"depth": 2}, "sizes": [1, None], "limit": float("inf")}
run.name, run.description = "first", "a remark"
run.add_tag("x")
for step in range(5):
    run.track(1 / (step + 1), name="loss", step=step, epoch=step // 2, context={"subset": "train"})
    run.track(float("nan") if step == 2 else step / 2, name="acc", step=10 * step, context={"subset": "val", "n": 1})
run.track(aim.Text("hello"), name="text", step=1)
run.close()
"""


def test_written_by_aim(tmp_path: Path) -> None:
    """Every value arrives with step, time and epoch; the repository is not changed."""
    pytest.importorskip("aim")
    repository = tmp_path / "repo"
    repository.mkdir()
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=repository, check=True, capture_output=True)
    before = contents(repository)
    (survey,) = json.loads(toyspec("doctor", "--json", str(tmp_path)).stdout)["paths"]
    assert ["aim"] == [entry["format"] for entry in survey["formats"]]
    (made,) = imported(tmp_path, tmp_path / "runs").runs
    assert before == contents(repository)
    assert ("aim", {"not-finite": 2, "no-place": 1}) == (made.format, losses(made))
    start, *rest = records(made.target)
    facts = {"name": "first", "group": "exp", "tags": ["x"], "notes": "a remark"}
    assert facts == {key: start[key] for key in facts}
    assert {"lr": 0.5, "net": {"depth": 2}, "sizes": [1, None], "limit": None} == start["config"]["hparams"]
    assert expected() == sorted(values(rest), key=repr)
    assert all(0.0 <= record["t"] < 600.0 for record in rest)


def test_sample_of_aim(tmp_path: Path) -> None:
    """The committed repository is what Aim has written, without the files that it does not need."""
    pytest.importorskip("aim")
    (made,) = imported(SAMPLES / "aim", tmp_path).runs
    assert ("aim", {"not-finite": 1}) == (made.format, losses(made))
    loss = [("train/loss", step, float(step // 2), 2.0 / (step + 1)) for step in range(4)]
    assert [*loss, ("val/acc", 3, None, None)] == values(records(made.target)[1:])


def contents(directory: Path) -> dict[str, bytes]:
    """Return the content of each file in *directory*."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def expected() -> list[tuple[str, int, float | None, float | None]]:
    """Return what the program has logged: name, step, epoch and value."""
    loss = [("train/loss", step, float(step // 2), 1 / (step + 1)) for step in range(5)]
    acc = [("n=1/val/acc", 10 * step, None, None if step == 2 else step / 2) for step in range(5)]
    return sorted([*loss, *acc], key=repr)


def values(found: list[dict[str, Any]]) -> list[tuple[str, int, float | None, float | None]]:
    """Return name, step, epoch and value of each scalar."""
    assert all(math.isfinite(record["t"]) for record in found)
    return [
        (name, record["step"], record.get("epoch"), value)
        for record in found
        for name, value in record["values"].items()
    ]
