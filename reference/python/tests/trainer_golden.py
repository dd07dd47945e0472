"""The run of the trainer that lies in the corpus. `python reference/python/tests/trainer_golden.py` renews it.

Renew it only when the trainer is meant to write something else, and look at the difference.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from logged_runs import renew
from training_runs import train

FILES = {"toy-v1/golden/trainer": ("events.jsonl",), "metrics-v1/golden/trainer": ("metrics.jsonl",)}
"""Files of the run by the case that they are in; checkpoints are too large for the corpus.

The first case also has a flow.json, which other trainers write.
"""


def golden_run(root: Path) -> Path:
    """Train the run of the corpus below *root* and return its directory."""
    common = ("--steps", "24", "--eval-every", "8", "--checkpoint-every", "0")
    assert 0 == train(*common, "--sample-every", "0", "--lr", "0.001", "--out", root / "baseline")
    results = ("--sample-every", "12", "--gate", "loss_ratio<0.9", "--compare-to", root / "baseline")
    assert 0 == train(*common, *results, "--out", root / "trainer")
    return root / "trainer"


def lines(path: Path) -> list[Any]:
    """Return the values in a file of JSON Lines."""
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


if __name__ == "__main__":
    corpus = Path(__file__).resolve().parents[3] / "conformance/cases"
    sys.path.insert(0, str(corpus.parents[1]))
    with tempfile.TemporaryDirectory() as root:
        run = golden_run(Path(root))
        for case, names in FILES.items():
            renew(corpus / case, run, names)
