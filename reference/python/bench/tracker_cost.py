"""What the tracker costs the training loop: a logged step, a step that no place gets, and memory."""

from __future__ import annotations

import gc
import os
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from measuring import Row, alternating, per_call, ratio, single, spread
from toyspec.tracker import LossTracker, MetricsTracker, TrainingLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_STEPS = 20_000
_OBJECTS = 20
_WINDOW = 100
_GROUP = "tracker"
_METRICS = {"loss": 1.5, "lr": 3e-4, "grad_norm": 0.5, "mfu": 0.56, "tokens_per_sec": 364_000.0}


def rows(folder: Path, _: int) -> Iterator[Row]:
    """Yield the cost of a step in microseconds of CPU time, and the size of each object in bytes."""
    options: dict[str, Any] = {"runs_root": folder, "print_every": 0}
    bundle = TrainingLogger(run_name="every-step", **options)
    idle = TrainingLogger(run_name="rare-steps", record_every=1_000_000, **options)
    numbers = iter(range(1, 10**9))
    times = alternating(
        {
            "bundle": partial(_log, bundle, numbers),
            "idle": partial(_log, idle, numbers),
            "bare": partial(_write_bare, str(folder / "bare.jsonl")),
        }
    )
    bundled, idled = per_call(times["bundle"], _STEPS), per_call(times["idle"], _STEPS)
    yield spread(_GROUP, "step with five scalars into a bundle", "us", bundled, most=10)
    yield ratio(_GROUP, "step into a bundle, against encode and write alone", times["bundle"], times["bare"])
    yield spread(_GROUP, "step that nothing gets", "us", idled, most=1)
    for name, make, goal in (
        ("MetricsTracker", partial(MetricsTracker, 1_000, 2048, 8, 2.2e15), 1_000),
        ("LossTracker, five metrics, 100 steps", _filled_loss_tracker, 10_000),
        ("TrainingLogger", partial(TrainingLogger, runs_root=None), 5_000),
    ):
        yield single(_GROUP, f"memory of a {name}", "bytes", _size(make), most=goal)
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
