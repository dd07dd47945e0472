"""Trains with each framework once, and keeps the runs for the site: ``nox -s gallery``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parents[2] / "docs" / "assets" / "framework-runs"


def main() -> None:
    """Run every program of ``frameworks/``, or those that are named, and replace its runs."""
    names = sys.argv[1:] or sorted(path.stem for path in (HERE / "frameworks").glob("*.py"))
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            # A bare name: the command line is in the run, and has no path of this machine.
            shutil.copy(HERE / "frameworks" / f"{name}.py", folder)
            fixed = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch", "TQDM_DISABLE": "1"}
            environment = {**os.environ, **fixed, "RAY_USAGE_STATS_ENABLED": "0"}
            subprocess.run([sys.executable, f"{name}.py"], cwd=folder, env=environment, check=True, capture_output=True)
            shutil.rmtree(TARGET / name, ignore_errors=True)
            for stream in sorted(Path(folder).glob("runs/*/events.jsonl")):
                kept = TARGET / name / stream.parent.name
                kept.mkdir(parents=True)
                shutil.copy(stream, kept)
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
