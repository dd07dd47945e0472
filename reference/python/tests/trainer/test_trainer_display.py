"""What a training shows, and that nothing around it stops it: a full disk, a closed pipe, a missing package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("gguf", reason="the extra `train` is not installed")

from command_line import command, environment
from files import in_subprocess
from training_runs import SHORT, losses

_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from toyspec.core.command_line.main import run
sys.exit(run())
"""
_WITHOUT = """
import sys
sys.modules[{module!r}] = None
from toyspec.core.command_line.main import run
sys.exit(run())
"""


def trained(program: str, out: Path, steps: int) -> subprocess.CompletedProcess[str]:
    """Run a Python program that trains, and return what came of it."""
    arguments = ["train", *SHORT, "--steps", str(steps), "--out", str(out)]
    return in_subprocess(program, *arguments, env=environment())


@pytest.mark.posix
def test_full_disk_stops_the_logs_and_not_the_training(tmp_path: Path) -> None:
    """When no file can grow any more, each log and the checkpoints report it, and all steps are trained."""
    done = trained(_LIMITED, tmp_path / "run", 60)
    assert 0 == done.returncode
    assert 60 == len(done.stdout.splitlines())
    said = done.stderr.splitlines()
    for fact in (
        "run/events.jsonl: File too large; records are dropped until writing works again",
        "run/metrics.jsonl: File too large",
        "run/weights: only a part could be written",
        "records were not written in total",
    ):
        assert any(fact in line for line in said), said
    assert sorted(losses(tmp_path / "run")) == list(losses(tmp_path / "run"))
    assert [] == [name for name in os.listdir(tmp_path / "run/weights") if name != "latest"]


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """Without a log the training goes on, two lines say what is not recorded, and no other file is tried."""
    (tmp_path / "file").touch()
    done = trained(
        "import sys; from toyspec.core.command_line.main import run; sys.exit(run())", tmp_path / "file" / "run", 3
    )
    assert (0, 3, 2) == (done.returncode, len(done.stdout.splitlines()), len(done.stderr.splitlines()))


@pytest.mark.posix
def test_reader_of_the_lines_may_go_away(tmp_path: Path) -> None:
    """A closed pipe ends the lines and not the training."""
    process = subprocess.Popen(
        command("train", *SHORT, "--steps", "40", "--out", str(tmp_path / "run")),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=300)
    assert (0, b"") == (process.returncode, errors)
    assert 40 == len(losses(tmp_path / "run"))


@pytest.mark.parametrize("module", ["numpy", "gguf"])
def test_missing_package_is_named(tmp_path: Path, module: str) -> None:
    """Without the extra the command says how to install it, and its help works all the same."""
    done = trained(_WITHOUT.format(module=module), tmp_path / "run", 3)
    assert 2 == done.returncode
    assert f"module '{module}' is not installed" in done.stderr
    assert "install what it needs with: pip install 'toyspec[train]'" in done.stderr
    assert not (tmp_path / "run").exists()
    helped = in_subprocess(_WITHOUT.format(module=module), "train", "--help")
    assert 0 == helped.returncode


def test_library_without_numpy_says_what_is_missing() -> None:
    """Asking the trainer for its parts without NumPy is an ImportError with the command to install it."""
    program = "import sys; sys.modules['numpy'] = None\nfrom toyspec.trainer import AdamW"
    done = in_subprocess(program)
    assert "ImportError: toyspec.trainer computes with NumPy" in done.stderr
    assert "pip install 'toyspec[train]'" in done.stderr
