"""Where ``toyspec bisect`` finds defects planted in trainings, and how many further seeds leave the bands of five.

``python compared_trainings.py [--goldens 10] [--further 100] [--steps 100000]`` trains a small network in NumPy, in a
repository of its own, so that the reasons are those that a run records by itself. It also measures ``bisect`` on two
logs of so many steps with ten metrics.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import toyspec
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.expect.bands import departures, expectation_of, shape_of
from toyspec.expect.partings import Tolerance, compare_runs

STEPS, BATCH, WIDTH = 64, 64, 32
PLACES = (2, 7, 13, 20, 31, 44, STEPS)
CAUSES = {
    "ulp": "code", "order after resume": "resumption", "scheduler": "setting", "dropout seed": "seed",
    "skipped batch": "code", "kernel order": "code", "loss scale": "setting",
}  # fmt: skip
PLANTS = [("ulp", 1), *((defect, step) for defect in CAUSES for step in PLACES)]
LEAST_NAMED, SLOWEST = 40, 3.0
CHOICE = DialectChoice()


class Network:
    """Two layers, and the data that they learn; the same at the start of each training."""

    def __init__(self) -> None:
        fixed = np.random.default_rng(0)
        self.inputs, self.first = fixed.normal(size=(8192, 16)), fixed.normal(size=(16, WIDTH)) / 4
        self.targets = np.tanh(self.inputs @ fixed.normal(size=(16, 1))) + 2
        self.second = fixed.normal(size=(WIDTH, 1)) / 6

    def learn(self, rows: Any, kept: Any, lr: float, defect: str) -> tuple[dict[str, float], str]:
        """Take a step with these *rows*, and hidden numbers that are *kept*; return metrics, and a digest of all."""
        hidden = np.maximum(self.inputs[rows] @ self.first, 0) * kept
        error = hidden @ self.second - self.targets[rows]
        scaled = 2 * error / BATCH
        if defect == "loss scale":
            scaled = np.round(scaled * 512 * 1e6) / 512 / 1e6
        back = hidden[::-1].T @ scaled[::-1] if defect == "kernel order" else hidden.T @ scaled
        front = self.inputs[rows].T @ ((scaled @ self.second.T) * (hidden > 0))
        values = {
            # That of a normal distribution of variance 1, in nats.
            "loss": float((error**2).mean() + np.log(2 * np.pi)) / 2,
            "grad_norm": float(np.sqrt((front**2).sum() + (back**2).sum())),
            "lr": lr,
            "weight_norm": float(np.sqrt((self.first**2).sum() + (self.second**2).sum())),
        }
        digest = sha256(self.first.tobytes() + self.second.tobytes() + back.tobytes()).hexdigest()
        self.first, self.second = self.first - lr * front, self.second - lr * back
        return values, digest


def train(run_id: str, defect: str = "", at: int = 0, *, seed: int = 1) -> list[dict[str, float]]:
    """Train and log a run below ``runs``; return what was logged. From step *at* on it has the *defect*.

    The *seed* is that of the order of batches and of dropout.
    """
    plant: dict[str, dict[str, Any]] = {
        "scheduler": {"decay_at": at},
        "loss scale": {"loss_scale": 512.0},
        "dropout seed": {"dropout.seed": 2},
    }
    config = {"seed": seed, "dropout.seed": 1, "decay_at": STEPS + 9, "loss_scale": 1024.0, **plant.get(defect, {})}
    network, logged = Network(), []
    order = np.random.default_rng(seed).integers(0, 8192, (STEPS + 2, BATCH))
    run = toyspec.start_run("runs", run_id=run_id, config=config)
    for step in range(1, STEPS + 1):
        present = defect if step >= at else ""
        if step == at and defect == "order after resume":
            run.close()
            run = toyspec.start_run("runs", run_id=run_id, config=config, exist="resume", from_step=step - 1)
        if step == at and defect == "ulp":
            network.first[0, 0] = np.nextafter(network.first[0, 0], np.inf)
        rows = order[step + (present in ("skipped batch", "order after resume"))]
        kept = np.random.default_rng([seed, step, present == "dropout seed"]).random((BATCH, WIDTH)) > 0.1
        lr = 0.05 * (0.5 if step >= config["decay_at"] else 1.0)
        values, digest = network.learn(rows, kept, lr, present)
        logged.append(values)
        run.log({**values, "digest": digest}, step=step)
    run.close()
    return logged


def partings() -> tuple[int, int, int]:
    """Return of how many plants the step is that of the plant, that of the first other number, and the reason is named.

    The log also has a digest of weights and gradients: the last bit of a weight is in no other value of its step.
    """
    sound, planted, exact, named = train("sound"), 0, 0, 0
    for number, (defect, at) in enumerate(PLANTS):
        with contextlib.ExitStack() as edited:
            if CAUSES[defect] == "code":
                Path("train.py").write_text(f"# {defect} at {at}\n")
                edited.callback(Path("train.py").write_text, "")
            logged = train(f"plant-{number}", defect, at)
        other = next((step for step, pair in enumerate(zip(sound, logged, strict=True), 1) if pair[0] != pair[1]), None)
        runs = "runs/sound", f"runs/plant-{number}"
        found = compare_runs(*runs, tolerance=Tolerance(), choice=CHOICE)
        numbers = compare_runs(*runs, tolerance=Tolerance(), globs=list(sound[0]), choice=CHOICE).partings
        step, step_of_numbers = found.partings[0].step, numbers[0].step if numbers else None
        reasons = [reason.what for reason in found.reasons[:3]]
        is_named = CAUSES[defect] in reasons
        planted, exact, named = planted + (step == at), exact + (step_of_numbers == other), named + is_named
        if step != at or step_of_numbers != other or not is_named:
            print(f"  {defect} at {at}: found at {step}, numbers at {step_of_numbers} of {other}, reasons {reasons}")
    return planted, exact, named


def outside(goldens: int, further: int) -> int:
    """Return how many of *further* seeds for each of *goldens* leave the bands of five seeds."""
    found = 0
    for golden in range(goldens):
        seeds = [f"golden-{golden}-{seed}" for seed in range(5)]
        for at, run in enumerate(seeds):
            train(run, seed=10_000 + 10 * golden + at)
        made = expectation_of([f"runs/{run}" for run in seeds], shape=shape_of(), globs=["loss"], choice=CHOICE)
        for each in range(further):
            train(f"further-{golden}-{each}", seed=20_000 + further * golden + each)
            found += bool(departures(f"runs/further-{golden}-{each}", made, choice=CHOICE)[1])
    return found


def speed(steps: int) -> list[float]:
    """Return the CPU time of comparing two logs against that of reading both, exactly and with a tolerance."""
    for name, begin in (("a", steps), ("b", steps * 3 // 4)):
        os.makedirs(f"runs/{name}")
        with open(f"runs/{name}/events.jsonl", "w", encoding="utf-8") as file:
            file.write('{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n')
            for step in range(1, steps + 1):
                value = (1 + step % 997 / 997) * (1 + 1e-12 * (step > begin))
                members = ",".join(f'"m{each}":{value * (each + 1)!r}' for each in range(10))
                file.write(f'{{"kind":"step","t":{step / 10:.1f},"step":{step},{members}}}\n')
    reading = _seconds(_read_both)
    return [
        _seconds(lambda tolerance=each: compare_runs("runs/a", "runs/b", tolerance=tolerance, choice=CHOICE)) / reading
        for each in (Tolerance(), Tolerance(rtol=1e-9))
    ]


def _read_both() -> None:
    for name in "ab":
        with toyspec.read(f"runs/{name}") as reading:
            reading.give_blocks(exact=True)
            for item in reading:
                if hasattr(item, "columns"):
                    item.columns()


def _seconds(work: Any) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> int:
    """Print the figures; return 1 if one misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--goldens", type=int, default=10)
    parser.add_argument("--further", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("train.py").write_text("")
        name = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        for words in (["init", "-q"], ["add", "train.py"], [*name, "commit", "-q", "-m", "train"]):
            subprocess.run(["git", *words], check=True)
        planted, exact, named = partings()
        print(f"step of the plant {planted}, of the first other number {exact}, reason {named}, of {len(PLANTS)}")
        total = options.goldens * options.further
        false = outside(options.goldens, options.further)
        print(f"outside the bands of 5 seeds: {false} of {total} further seeds", flush=True)
        ratios = speed(options.steps)
        print(f"bisect, against reading both logs: {', '.join(f'{each:.2f}x' for each in ratios)}")
    is_missed = (
        min(planted, exact) < len(PLANTS) or named < LEAST_NAMED or false > total / 1000 or max(ratios) > SLOWEST
    )
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
