"""Makes runs of like sizes as real ones, for measurements with many of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

_STEPS = (100, 300, 1000)
_CHANGED = 100
"""One run in so many changes before an update."""


def bundle(number: int, steps: int | None = None) -> bytes:
    """Return the stream of the run *number*; it has *steps*, or as many as usual runs."""
    chance = random.Random(number)
    head = (
        f'{{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run-{number:08}","started_at":"{day(number)}T10:00:00Z",'
        f'"config":{{"lr":{chance.choice((1e-3, 3e-4))},"seed":{number}}}}}\n'
    )
    many = chance.choices(_STEPS, (8, 2, 1))[0] if steps is None else steps
    lines = "".join(
        f'{{"kind":"step","t":{step * 0.1:.1f},"step":{step},"loss":{4 / (step + 1) + chance.random():.5f},"lr":0.1}}\n'
        for step in range(many)
    )
    return f'{head}{lines}{{"kind":"run_end","t":999.0,"reason":"completed"}}\n'.encode()


def day(number: int) -> str:
    """Return the day on which the run *number* began."""
    return f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}"


def write_runs(root: str, count: int, steps: int | None = None) -> None:
    """Write *count* runs below *root*, of *steps* each, or of as many as usual runs have."""
    for number in range(count):
        directory = os.path.join(root, f"run-{number:08}")
        os.makedirs(directory)
        Path(directory, "events.jsonl").write_bytes(bundle(number, steps))


def change(root: str, count: int) -> None:
    """Change every hundredth run."""
    for number in range(0, count, _CHANGED):
        with open(os.path.join(root, f"run-{number:08}", "events.jsonl"), "ab") as file:
            file.write(b'{"kind":"run_end","t":1000.0,"reason":"completed"}\n')
