"""Small trainings of one program, each with a defect that begins at a known step."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import toyspec

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 60

Defect = Literal[
    "ulp", "order after resume", "scheduler", "dropout seed", "skipped batch", "kernel order", "loss scale"
]


class Plant(NamedTuple):
    """A defect, and the step at which it begins."""

    defect: Defect
    step: int


STEPS_OF_DEFECTS = (2, 7, 13, 20, 31, 44, STEPS)
CAUSES: dict[Defect, tuple[str, dict[str, Any]]] = {
    "ulp": ("code", {"git": "b" * 40}),
    "order after resume": ("resumption", {}),
    "scheduler": ("setting", {"config": {"schedule_offset": 1}}),
    "dropout seed": ("seed", {"config": {"seed": 2}}),
    "skipped batch": ("data", {"data": [{"name": "words", "revision": "2"}]}),
    "kernel order": ("version", {"packages": {"kernels": "2.0"}}),
    "loss scale": ("setting", {"config": {"loss_scale": 512.0}}),
}
"""What the reason for each defect is about, and what the log records of it."""
PLANTS = [Plant("ulp", 1), *(Plant(defect, step) for defect in CAUSES for step in STEPS_OF_DEFECTS)]


def train(root: Path, run_id: str, plant: Plant | None = None) -> Path:
    """Train two weights on noisy sums and return the run; with *plant* its defect is there from its step on."""
    known = CAUSES[plant.defect][1] if plant else {}
    members: dict[str, Any] = {
        "git": "a" * 40,
        "data": [{"name": "words", "revision": "1"}],
        "packages": {"kernels": "1.0"},
        **known,
        "config": {"schedule_offset": 0, "seed": 1, "loss_scale": 1024.0, **known.get("config", {})},
    }
    weights = [0.1, -0.2]
    writer = toyspec.start_run(root, run_id=run_id, **members)
    for step in range(1, STEPS + 1):
        defect = plant.defect if plant and step >= plant.step else None
        begins = plant is not None and step == plant.step
        if defect == "order after resume" and begins:
            writer.close()
            writer = toyspec.start_run(root, run_id=run_id, exist="resume", from_step=step - 1, **members)
        if defect == "ulp" and begins:
            weights[0] = math.nextafter(weights[0], math.inf)
        batch = step + (defect in ("skipped batch", "order after resume"))
        kept = random.Random(f"{1 + (defect == 'dropout seed')}/{step}").random()
        rows = [[random.Random(f"{batch}/{row}/{at}").gauss(0, 1) for at in range(2)] for row in range(8)]
        errors = [(0.5 + kept) * weights[0] * x + weights[1] * y - (2 * x - y) for x, y in rows]
        gradient = [math.fsum(2 * e * row[at] for e, row in zip(errors, rows, strict=True)) / 8 for at in range(2)]
        if defect == "kernel order":
            gradient = [each * (1 + 1e-15) for each in gradient]
        if defect == "loss scale":
            gradient = [round(each * 512) / 512 for each in gradient]
        lr = 0.05 / (1 + (step + (defect == "scheduler")) / STEPS)
        values = {"lr": lr, "weight": weights[0], "grad_norm": math.hypot(*gradient)}
        writer.log({**values, "loss": math.fsum(e * e for e in errors) / 8}, step=step)
        weights = [weight - lr * each for weight, each in zip(weights, gradient, strict=True)]
    writer.close()
    return root / run_id
