from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the extra `tracker` is not installed")

from fake_wandb import FakeWandb
from logged_runs import findings
from toyspec.tracker.example import VOCABULARY, main


def test_both_integrations_log_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example shows the lines of two runs, whose losses fall, and leaves two bundles without a finding."""
    fake = FakeWandb(tmp_path, monkeypatch)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    main([str(tmp_path / "runs")])
    monkeypatch.delenv("WANDB_MODE")
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if " step=" in line]
    losses = [float(line.partition(" loss=")[2].partition(" ")[0]) for line in lines]
    assert 14 == len(lines)
    assert losses[:4] == sorted(losses[:4], reverse=True)
    assert losses[4:] == sorted(losses[4:], reverse=True)
    assert losses[-1] < 0.8 * losses[4]
    assert f"look at them with: toyspec check {tmp_path}/runs\n" in printed
    assert [] == findings(tmp_path / "runs")
    small, large = sorted(tmp_path.glob("runs/*/events.jsonl"))
    assert ("experiment-1", True) == (small.parent.name, large.parent.name.startswith("my-project-"))
    assert list(range(len(losses_in(small)))) == list(losses_in(small))
    assert losses_in(small)[0] == pytest.approx(math.log(VOCABULARY), rel=0.01)
    values = [json.loads(line) for line in large.read_text().splitlines()]
    (evaluated,) = [value for value in values if value["kind"] == "eval"]
    assert math.exp(evaluated["loss"]) == pytest.approx(evaluated["ppl"])
    last = [value for value in values if value["kind"] == "step"][-1]
    assert evaluated["step"] == last["step"]
    assert {"ce_loss", "entropy", "mfu"} <= last["extra"].keys()
    rates = [value["lr"] for value in values if value["kind"] == "step"]
    assert sorted(rates) == rates
    assert (rates[0] * 10, rates[9]) == (rates[-1], rates[-1])
    assert [small.parent.name, large.parent.name] == [call["name"] for call in fake.calls("init")]


def losses_in(path: Path) -> dict[int, float]:
    """Return the loss of each step."""
    records = map(json.loads, path.read_text().splitlines())
    return {record["step"]: record["loss"] for record in records if record["kind"] == "step"}


def test_importing_the_tracker_imports_no_library_of_arrays(tmp_path: Path) -> None:
    """A program that imports the tracker has not imported NumPy, JAX, PyTorch or wandb by that."""
    code = "import sys, toyspec.tracker; print(sorted({'numpy', 'jax', 'torch', 'wandb'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "[]\n" == done.stdout


def test_everything_promised_can_be_imported() -> None:
    """Every name of the package is there, in sorted order."""
    import toyspec.tracker

    names = toyspec.tracker.__all__
    assert sorted(names) == names
    assert [] == [name for name in names if not hasattr(toyspec.tracker, name)]
