"""Trains many small models with the bundled trainer's model, text and optimizer, and keeps their curves.

``python health_curves.py FOLDER PART COUNT STEPS [FIRST EVERY]`` writes ``FOLDER/PART-N.npz`` for N from
FIRST on, every EVERY-th. Sizes, batches, learning rates and seeds differ; those of the parts have
nothing in common. A curve has the loss, the norm of the gradient and the CPU time of each step.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from toyspec.trainer.language_model import LanguageModel, shipped_text
from toyspec.trainer.stepping import AdamW, grad_norm, grad_norms

PARTS = ("tuned", "held-out")


def train(part: str, number: int, steps: int) -> dict[str, Any]:
    """Return the columns of one curve."""
    chosen = random.Random(f"{part} {number}")
    text = shipped_text()

    class Small(LanguageModel):
        batch = chosen.choice((4, 8, 16, 32))
        context = chosen.choice((4, 8))
        d_model = chosen.choice((8, 16))
        d_ff = chosen.choice((16, 32, 64))

    seed = 1000 * PARTS.index(part) + number
    model = Small(len(text.vocabulary), seed)
    optimizer = AdamW(lr=10 ** chosen.uniform(-3.3, -2.0))
    columns: dict[str, list[float]] = {"loss": [], "grad_norm": [], "seconds": []}
    for step in range(1, steps + 1):
        began = time.process_time()
        loss = model.train(text.batch(model, seed, step), optimizer)
        columns["seconds"].append(time.process_time() - began)
        columns["loss"].append(loss)
        columns["grad_norm"].append(grad_norm(grad_norms(model.parameters)))
    return {name: np.array(values) for name, values in columns.items()}


def main(  # noqa: PLR0913, PLR0917 - the words of the command line
    folder: str,
    part: str,
    count: str,
    steps: str,
    first: str = "0",
    every: str = "1",
) -> None:
    """Write the curves that are not there yet."""
    for number in range(int(first), int(count), int(every)):
        path = Path(folder) / f"{part}-{number}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            made = path.with_suffix(f".{number}.new.npz")
            np.savez_compressed(made, **train(part, number, int(steps)))
            made.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
