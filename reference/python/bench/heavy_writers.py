"""What a step costs the training loop in trackers that install much: ``make bench-all``. An absent one is named."""

from __future__ import annotations

import contextlib
import io
import os
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from measuring import Row, missing, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_GROUP = "writers with much to install"
_CALLS = 1_000
_ROUNDS = 3
_MEMBERS: dict[str, Any] = {"loss": 2.5, "lr": 3e-4, "grad_norm": 0.5, "tokens": 4096, "wall_us": 900}


def rows(folder: Path, _: int) -> Iterator[Row]:
    """Yield the cost of a step in each: CPU of the thread that calls, and elapsed time."""
    from toyspec.writing.run_writer import RunWriter

    run = RunWriter(folder / "beside")
    run.run_start(model="llama")
    yield from _measured("toyspec, run.step", lambda step: run.step(step, **_MEMBERS), 1)
    run.close()
    for name, module, opened in (
        ("tensorboardX, five add_scalar", "tensorboardX", _tensorboard),
        ("wandb, offline, log", "wandb", _wandb),
        ("Trackio, log", "trackio", _trackio),
    ):
        try:
            library = import_module(module)
        except ImportError:
            yield missing(_GROUP, name, f"no module {module}")
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()), opened(library, folder) as log:
                found = list(_measured(name, log, 1))
        except Exception as error:  # noqa: BLE001 - what a peer raises is the row
            yield missing(_GROUP, name, f"{type(error).__name__}: {error}"[:120])
            continue
        yield from found


def _measured(name: str, log: Callable[[int], object], first: int) -> Iterator[Row]:
    cpu, elapsed = [], []
    for number in range(_ROUNDS):
        started, at = time.thread_time(), time.perf_counter()
        for step in range(first + number * _CALLS, first + (number + 1) * _CALLS):
            log(step)
        cpu.append((time.thread_time() - started) / _CALLS * 1e6)
        elapsed.append((time.perf_counter() - at) / _CALLS * 1e6)
    yield spread(_GROUP, f"{name}: CPU of the caller", "us", cpu)
    yield spread(_GROUP, f"{name}: elapsed", "us", elapsed)


@contextlib.contextmanager
def _tensorboard(library: Any, folder: Path) -> Iterator[Callable[[int], object]]:
    writer = library.SummaryWriter(str(folder / "tensorboard"))

    def log(step: int) -> None:
        for name, value in _MEMBERS.items():
            writer.add_scalar(name, value, step)

    yield log
    writer.close()


@contextlib.contextmanager
def _wandb(library: Any, folder: Path) -> Iterator[Callable[[int], object]]:
    settings = library.Settings(silent=True, console="off")
    run = library.init(mode="offline", dir=str(folder), project="bench", settings=settings)
    yield lambda step: run.log(_MEMBERS, step=step)
    run.finish()


@contextlib.contextmanager
def _trackio(library: Any, folder: Path) -> Iterator[Callable[[int], object]]:
    os.environ.setdefault("TRACKIO_DIR", str(folder / "trackio"))
    library.init(project="bench")
    yield lambda _: library.log(_MEMBERS)
    library.finish()
