"""The demo shows what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import toyspec

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "reference/python/demo/show.py"
VARYING = re.compile(r"_mnist|^…$")
"""Lines of README.md that differ from run to run, or stand for others."""
PROFILES = ("toy/v1", "metrics/v1", "kaun/v1")


def test_demo_shows_every_state_of_every_profile(tmp_path: Path) -> None:
    """It ends well, has a complete, a torn and a damaged run of each profile, and README.md shows what it prints."""
    done = subprocess.run(
        [sys.executable, DEMO], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("Everything this demo made")

    files = toyspec.check(tmp_path / "demo-runs").files
    written = [file for file in files if not {"llama-live", "mlp-001"} & set(Path(file.path).parts)]
    states = Counter((file.profile, file.state) for file in written)
    assert {(profile, state): 1 for profile in PROFILES for state in ("complete", "torn", "damaged")} == states
    assert "final_step 8" in done.stdout

    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("$ toyspec ls --full demo-runs\n")[2]
    lasting = [line for line in shown.partition("\n$ toyspec tail")[0].splitlines() if not VARYING.search(line)]
    assert len(lasting) > 10
    assert set() == set(lasting) - set(done.stdout.splitlines())
