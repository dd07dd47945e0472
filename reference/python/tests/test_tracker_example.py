from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from logged_runs import findings


def test_both_integrations_run_as_a_program(tmp_path: Path) -> None:
    """The example shows the lines of two runs, whose losses fall, and leaves two bundles without a finding."""
    environment = os.environ | {"WANDB_MODE": "disabled", "PYTHONUTF8": "1", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "toyspec.tracker.example"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if " step=" in line]
    losses = [float(line.partition(" loss=")[2].partition(" ")[0]) for line in lines]
    assert 14 == len(lines)
    assert losses[:4] == sorted(losses[:4], reverse=True)
    assert losses[4:] == sorted(losses[4:], reverse=True)
    assert "[VAL] val_loss=" in done.stdout
    assert 2 == len(list(tmp_path.glob("runs/*/events.jsonl")))
    assert [] == findings(tmp_path / "runs")


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
