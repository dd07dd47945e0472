"""Writes this sample with tokitai-operator 0.1.0: ``python make.py`` in this directory; needs cargo."""

import subprocess
from pathlib import Path

PROGRAM = "../../../../rust/originals/tokitai/Cargo.toml"

Path("metrics.jsonl").unlink(missing_ok=True)
subprocess.run(["cargo", "run", "--manifest-path", PROGRAM, "--example", "sample", "--", "metrics.jsonl"], check=True)
