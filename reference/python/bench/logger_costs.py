"""What a logged step costs in the same training loop with each logger, and what is lost when the loop is killed.

``nox -s bench_loggers``. A logger that is not installed is named. As a program, ``python logger_costs.py NAME FOLDER``
trains with one logger until it is killed, and prints each step once it is logged.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from measuring import Row, missing, spread

_GROUP = "loggers in one training loop"
_LOSSES_GROUP = "loggers, killed"
_STEP_SECONDS = 0.002
_STEPS = 200
_ROUNDS = 5
_KILLS = 3
_WAIT_SECONDS = 120.0
_MEMBERS: dict[str, Any] = {"loss": 2.5, "lr": 3e-4, "grad_norm": 0.5, "tokens": 4096, "wall_us": 900}

Log = Callable[[int], object]


class Logger(NamedTuple):
    """One way to log a step of five numbers."""

    name: str
    module: str
    """Module that has to be installed."""
    opened: Callable[[Any, Path], contextlib.AbstractContextManager[Log]]
    steps_in: Callable[[Path], int]
    """Returns the number of steps that can be read back from a folder."""


def rows(folder: Path, _: int) -> Iterator[Row]:
    """Yield the time that a step takes from the loop with each logger, and the steps that a kill costs."""
    there = []
    for logger in LOGGERS:
        try:
            library = import_module(logger.module)
        except ImportError:
            yield missing(_GROUP, logger.name, f"no module {logger.module}")
            continue
        there.append(logger)
        with contextlib.redirect_stdout(io.StringIO()), logger.opened(library, folder / logger.name) as log:
            found = list(_costs(logger.name, log))
        yield from found
    for logger in there:
        lost = [_lost(logger, folder / f"{logger.name}-killed-{attempt}", attempt) for attempt in range(_KILLS)]
        most: dict[str, Any] = {"most": 0} if logger.name == "toyspec" else {}
        yield spread(_LOSSES_GROUP, f"{logger.name}: steps lost", "steps", lost, **most)


def _costs(name: str, log: Log) -> Iterator[Row]:
    """Yield elapsed time and CPU time of the logging call, in a loop whose steps take two milliseconds."""
    elapsed, cpu = [], []
    for number in range(_ROUNDS + 1):
        taken, used = 0.0, 0.0
        for step in range(number * _STEPS, (number + 1) * _STEPS):
            _train()
            at, started = time.perf_counter(), time.thread_time()
            log(step)
            used += time.thread_time() - started
            taken += time.perf_counter() - at
        if number:  # the first round warms up
            elapsed.append(taken / _STEPS * 1e6)
            cpu.append(used / _STEPS * 1e6)
    goal: dict[str, Any] = {"most": _STEP_SECONDS * 1e6 / 100} if name == "toyspec" else {}
    yield spread(_GROUP, f"{name}: elapsed", "us", elapsed, **goal)
    yield spread(_GROUP, f"{name}: CPU of the loop", "us", cpu)


def _train() -> None:
    """Compute for two milliseconds, as a step on the processor would."""
    end = time.perf_counter() + _STEP_SECONDS
    while time.perf_counter() < end:
        sum(range(50))


def _lost(logger: Logger, folder: Path, seed: int) -> float:
    """Return the steps that were logged and cannot be read back after SIGKILL at a random moment."""
    folder.mkdir()
    command = [sys.executable, __file__, logger.name, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        logged = int(process.stdout.readline() or -1)
        time.sleep(random.Random(seed).uniform(1.0, 3.0))
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            logged = int(line) if line.endswith(b"\n") else logged
    # A service of the logger may still write what it has.
    time.sleep(3.0)
    return float(max(0, logged + 1 - logger.steps_in(folder)))


@contextlib.contextmanager
def _toyspec(_: Any, folder: Path) -> Iterator[Log]:
    from toyspec.core.writing.run_writer import RunWriter

    run = RunWriter(folder / "run")
    run.run_start(model="llama")
    yield lambda step: run.step(step, **_MEMBERS)
    run.close()


@contextlib.contextmanager
def _tensorboard(library: Any, folder: Path) -> Iterator[Log]:
    writer = library.SummaryWriter(str(folder))

    def log(step: int) -> None:
        for name, value in _MEMBERS.items():
            writer.add_scalar(name, value, step)

    yield log
    writer.close()


@contextlib.contextmanager
def _csv(library: Any, folder: Path) -> Iterator[Log]:
    logger = library.CSVLogger(str(folder))
    yield lambda step: logger.log_metrics(_MEMBERS, step)
    logger.save()


@contextlib.contextmanager
def _wandb(library: Any, folder: Path) -> Iterator[Log]:
    folder.mkdir(exist_ok=True)
    settings = library.Settings(silent=True, console="off")
    run = library.init(mode="offline", dir=str(folder), project="bench", settings=settings)
    yield lambda step: run.log(_MEMBERS, step=step)
    run.finish()


@contextlib.contextmanager
def _mlflow(library: Any, folder: Path) -> Iterator[Log]:
    folder.mkdir(exist_ok=True)
    client = library.MlflowClient(f"sqlite:///{folder}/mlflow.db")
    entities = import_module("mlflow.entities")
    run = client.create_run("0").info.run_id

    def log(step: int) -> None:
        now = int(time.time() * 1000)
        client.log_batch(run, [entities.Metric(name, value, now, step) for name, value in _MEMBERS.items()])

    yield log


@contextlib.contextmanager
def _trackio(library: Any, folder: Path) -> Iterator[Log]:
    del folder
    library.init(project="bench", auto_log_gpu=False, auto_log_cpu=False)
    yield lambda step: library.log(_MEMBERS, step=step)
    library.finish()


def _steps_imported(folder: Path) -> int:
    """Return the number of steps that an import of the logger's own files finds."""
    import toyspec

    with tempfile.TemporaryDirectory() as out:
        report = toyspec.import_runs([folder], Path(out) / "runs")
        return sum(len(_steps(toyspec.read(run.target, mode="salvage"))) for run in report.runs)


def _steps_read(folder: Path) -> int:
    import toyspec

    return len(_steps(toyspec.read(folder / "run", mode="salvage")))


def _steps(records: Any) -> set[int]:
    return {record["step"] for record in records if isinstance(record.get("step"), int)}


def _rows_of_csv(folder: Path) -> int:
    paths = list(folder.rglob("metrics.csv"))
    if not paths:
        return 0
    with paths[0].open(newline="", encoding="utf-8") as file:
        return sum(1 for _ in csv.DictReader(file))


LOGGERS = (
    Logger("toyspec", "toyspec", _toyspec, _steps_read),
    Logger("Trackio", "trackio", _trackio, _steps_imported),
    Logger("CSV of Lightning", "lightning.pytorch.loggers", _csv, _rows_of_csv),
    Logger("TensorBoard", "torch.utils.tensorboard", _tensorboard, _steps_imported),
    Logger("W&B, offline", "wandb", _wandb, _steps_imported),
    Logger("MLflow", "mlflow.tracking", _mlflow, _steps_imported),
)


def _train_until_killed(name: str, folder: Path) -> None:
    logger = next(logger for logger in LOGGERS if logger.name == name)
    answers = os.dup(1)
    os.dup2(2, 1)
    # Trackio finds its directory when it is imported.
    os.environ["TRACKIO_DIR"] = str(folder)
    library = import_module(logger.module)
    with logger.opened(library, folder) as log:
        step = 0
        while True:
            _train()
            log(step)
            os.write(answers, b"%d\n" % step)
            step += 1


if __name__ == "__main__":
    _train_until_killed(sys.argv[1], Path(sys.argv[2]))
