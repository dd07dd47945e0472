"""Writes runs of all three profiles through the public writers, on a clock that moves an hour in a moment."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import toyspec
from toyspec.testing import ManualClock

MODEL = {"arch": "llama", "vocab": 512, "d_model": 288, "n_layers": 6, "n_heads": 6}
MORNING = 1780219800.0
"""2026-05-31T09:30:00Z in seconds since the Unix epoch."""


def write_toy(directory: Path, *, lr: float, seed: int, steps: int = 400) -> Path:
    """Write a run of a language model and return its stream."""
    clock = ManualClock(wall=MORNING + 7200.0 * seed)
    chance = random.Random(seed)
    config = {"lr": lr, "batch_size": 32, "seed": seed, "steps": steps}
    with toyspec.start_run(
        directory.parent, run_id=directory.name, model=MODEL, config=config, clock=clock, git=None
    ) as run:
        for step in range(1, steps + 1):
            clock.advance(10.0 + chance.random())
            loss = loss_at(step, lr, chance)
            run.step(loss=loss, lr=lr, grad_norm=round(1.0 + chance.random(), 4), tokens=16_384)
            if step % 100 == 0:
                run.eval("held-out", step=step, loss=round(loss + 0.05, 4), samples=64)
        run.sample("Once upon a time", "there was a loss that wanted to be small.", step=steps)
    return directory / "events.jsonl"


def write_metrics(directory: Path, *, seed: int, steps: int = 200) -> Path:
    """Write the metrics of an image model, one loss not finite, and return the stream."""
    chance = random.Random(seed)
    stream = directory / "metrics.jsonl"
    with toyspec.MetricsLog.open(stream) as log:
        for step in range(1, steps + 1):
            log.record(
                step=step,
                wall_time_ms=120.0 * step,
                loss=math.nan if step == 7 else loss_at(step, 1e-3, chance),
                grad_norm=1.0 + chance.random(),
                throughput_samples_per_sec=2100.0 + 50.0 * chance.random(),
            )
    return stream


def write_kaun(root: Path, *, experiment: str, seed: int, steps: int = 100) -> Path:
    """Write the scalars of a small experiment below *root* and return the stream."""
    clock = ManualClock(wall=MORNING + 60.0 * seed)
    chance = random.Random(seed)
    run = toyspec.KaunRun.create(root, experiment=experiment, config={"seed": seed}, tags=["demo"], clock=clock)
    for step in range(1, steps + 1):
        clock.advance(0.5)
        run.log_scalar("train/loss", loss_at(step, 3e-4, chance), step=step, minimize=True)
        if step % 25 == 0:
            run.log_scalar("valid/accuracy", round(1.0 - math.exp(-0.03 * step), 4), step=step)
    run.close()
    return Path(run.events_path)


def write_live(directory: Path, *, seconds: float, steps: int = 8) -> None:
    """Write a short run in real time, *seconds* long in all."""
    chance = random.Random(0)
    with toyspec.start_run(directory.parent, run_id=directory.name, arch="llama", git=None) as run:
        for step in range(1, steps + 1):
            time.sleep(seconds / steps)
            run.step(loss=loss_at(50 * step, 3e-4, chance), lr=3e-4)


def loss_at(step: int, lr: float, chance: random.Random) -> float:
    """Return a loss that falls from about ln 512, the faster the nearer *lr* is to 3e-4, with noise."""
    speed = 0.01 / (1.0 + abs(math.log(lr / 3e-4)))
    return round(1.6 + 4.6 * math.exp(-speed * step) + 0.04 * chance.gauss(0.0, 1.0), 4)
