"""What the tracker costs the training loop: a logged step, a step that no place gets, and memory."""

from __future__ import annotations

import gc
import os
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from measuring import Row, side_by_side
from toyspec.tracker import LossTracker, MetricsTracker, TrainingLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_STEPS = 20_000
_OBJECTS = 20
_WINDOW = 100
_MICROSECONDS = 1e6
_METRICS = {"loss": 1.5, "lr": 3e-4, "grad_norm": 0.5, "mfu": 0.56, "tokens_per_sec": 364_000.0}


def rows(folder: Path) -> Iterator[Row]:
    """Yield the cost of a step in microseconds of CPU time, and the size of each object in bytes."""
    options: dict[str, Any] = {"runs_root": folder, "print_every": 0}
    bundle = TrainingLogger(run_name="every-step", **options)
    idle = TrainingLogger(run_name="rare-steps", record_every=1_000_000, **options)
    numbers = iter(range(1, 10**9))
    times = side_by_side(
        {
            "bundle": partial(_log, bundle, numbers),
            "idle": partial(_log, idle, numbers),
            "bare": partial(_write_bare, str(folder / "bare.jsonl")),
        }
    )
    micros = {name: time.best / _STEPS * _MICROSECONDS for name, time in times.items()}
    compared = f"{micros['bundle']:.1f} us ({micros['bundle'] / micros['bare']:.1f}x encode and write alone)"
    yield Row("step with five scalars into a bundle", compared, "under 10 us", micros["bundle"] < 10)
    yield Row("step that nothing gets", f"{micros['idle']:.2f} us", "under 1 us", micros["idle"] < 1)
    for name, make, goal in (
        ("MetricsTracker", partial(MetricsTracker, 1_000, 2048, 8, 2.2e15), 1_000),
        ("LossTracker, five metrics, 100 steps", _filled_loss_tracker, 10_000),
        ("TrainingLogger", partial(TrainingLogger, runs_root=None), 5_000),
    ):
        size = _size(make)
        yield Row(f"memory of a {name}", f"{size:,.0f} bytes", f"about {goal:,}", size < goal)
    for logger in (bundle, idle):
        logger.finish()


def _log(logger: TrainingLogger, numbers: Iterator[int]) -> None:
    for _ in range(_STEPS):
        logger.log_step(step=next(numbers), **_METRICS)


def _write_bare(path: str) -> None:
    """Encode and append the same members, with nothing around it."""
    encode = msgspec.json.Encoder().encode
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(_STEPS):
        os.write(descriptor, encode({"kind": "step", "t": 0.5, "step": number, **_METRICS}) + b"\n")
    os.close(descriptor)


def _filled_loss_tracker() -> LossTracker:
    tracker = LossTracker(_WINDOW)
    for step in range(3 * _WINDOW):
        tracker.update(**{name: value * step for name, value in _METRICS.items()})
    return tracker


def _size(make: Callable[[], object]) -> float:
    """Return the memory that one object allocates and keeps, in bytes."""
    make()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = [make() for _ in range(_OBJECTS)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(kept)
