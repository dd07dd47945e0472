"""What a log call costs the training loop, beside other ways to write the same step, and the package as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import toyspec
from measuring import Row, alternating, missing, per_call, ratio, spread
from toyspec.core.metrics.log import MetricsLog
from toyspec.core.writing.run_writer import RunWriter
from writing_calls import COUNTS, MEMBERS, MIXED

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUP = "writer"
_LOOPS_GROUP = "eight mixed values"
_BEFORE_GROUP = "writer, against the package before"
_CALLS = 10_000
_ROUNDS = 9
_TIGHT, _STEPS = 2_000, 40
_BEFORE = "6ad0312e"
"""The package that is compared with until there is a tag: the one before values of any type had one path."""
_MOST_OF_BEFORE = 1.05
_LINE = (
    b'{"kind":"step","t":1.901927,"step":20000,"loss":2.5,"lr":0.0003,"grad_norm":0.5,"tokens":4096,"wall_us":900}\n'
)


def rows(folder: Path, _: int) -> Iterator[Row]:
    """Yield the cost of one call in microseconds of CPU time, into files in *folder*."""
    run, ended = RunWriter(folder / "writing"), RunWriter(folder / "ended")
    for writer in (run, ended):
        writer.run_start(model="llama")
    ended.close()
    log = MetricsLog.open(folder / "writing.jsonl")
    descriptor = _appending(folder / "bare.jsonl")
    functions: dict[str, Callable[[], object]] = {
        "write": lambda: os.write(descriptor, _LINE),
        "step": lambda: run.step(loss=2.5, lr=3e-4, grad_norm=0.5, tokens=4096, wall_us=900),
        "ended": lambda: ended.step(loss=2.5, lr=3e-4, grad_norm=0.5, tokens=4096, wall_us=900),
        "note": lambda: run.note("a remark of a few words"),
        "entry": lambda: log.record(step=1, wall_time_ms=0.5, loss=2.5, grad_norm=0.1, throughput_samples_per_sec=512),
    }
    functions |= _peers(folder)
    times = alternating({name: _repeated(call) for name, call in functions.items()}, _ROUNDS, "thread")
    yield spread(_GROUP, "run.step with five members", "us", per_call(times["step"], _CALLS), most=3)
    yield spread(_GROUP, "run.step of a closed writer", "us", per_call(times["ended"], _CALLS), most=0.3)
    for name, title in (("note", "run.note"), ("entry", "MetricsLog.record"), ("write", "the system's write alone")):
        yield spread(_GROUP, title, "us", per_call(times[name], _CALLS))
    yield from _against_peers(times)
    os.close(descriptor)
    log.close()
    run.close()
    yield from _in_loops(folder)
    yield from _against_before(folder)


def _peers(folder: Path) -> dict[str, Callable[[], object]]:
    text = (folder / "flushed.jsonl").open("a", encoding="utf-8")
    found: dict[str, Callable[[], object]] = {"json.dumps, flushed": partial(_write_flushed, text)}
    try:
        orjson = import_module("orjson")
    except ImportError:
        return found
    return found | {"orjson and one write": partial(_write_once, orjson, _appending(folder / "orjson.jsonl"))}


def _against_peers(times: dict[str, list[float]]) -> Iterator[Row]:
    for name in ("json.dumps, flushed", "orjson and one write"):
        if name not in times:
            yield missing(_GROUP, name, "no module orjson")
            continue
        yield spread(_GROUP, name, "us", per_call(times[name], _CALLS))
        yield ratio(_GROUP, f"run.step, against {name}", times["step"], times[name])


def _write_flushed(file: Any) -> None:
    file.write(json.dumps({"kind": "step", "t": 1.901927, "step": 20000, **MEMBERS}) + "\n")
    file.flush()


def _write_once(orjson: Any, descriptor: int) -> None:
    event = {"kind": "step", "t": 1.901927, "step": 20000, **MEMBERS}
    os.write(descriptor, orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))


def _appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _repeated(call: Callable[[], object], count: int = _CALLS) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(count):
            call()

    return repeat


def _in_loops(folder: Path) -> Iterator[Row]:
    """Yield what eight mixed values cost in a tight loop, and in one that computes, beside other ways to log them.

    All take turns, so that a busy machine slows each down alike. The threads of a SummaryWriter disturb what comes
    after them: JSON is compared without them.
    """
    writers, absent = _summary_writers(folder)
    yield from (missing(_LOOPS_GROUP, f"SummaryWriter of {name}", f"no module {name}") for name in absent)
    plain = {"json.dumps, flushed": _plain(folder)}
    with toyspec.start_run(folder / "loops", run_id="a", git=None) as run:
        ours = {"run.log": lambda: run.log(MIXED), "run.step": lambda: run.step(loss=2.5, extra=MIXED)}
        for others, goals in ((plain, (1.0, 1.3)), (writers, (1.0, 1.0))):
            for loop, timed, most in zip(
                ("tight loop", "step that computes"), (_tight, _computing), goals, strict=True
            ):
                taken = timed({**ours, **others}) if others else {}
                yield from (spread(_LOOPS_GROUP, f"{name}, {loop}", "us", per_call(taken[name], 1)) for name in taken)
                for one, other in product(ours, others):
                    yield ratio(_LOOPS_GROUP, f"{one}, {loop}, against {other}", taken[one], taken[other], most=most)


def _tight(calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    times = alternating({name: _repeated(call, _TIGHT) for name, call in calls.items()}, _ROUNDS, "thread")
    return {name: [seconds / _TIGHT for seconds in found] for name, found in times.items()}


def _computing(calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the median of each round, whose steps of 7 to 15 ms multiply matrices, as training does.

    That leaves the caches to the numbers of the model.
    """
    compute = _matrix_product()
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(_STEPS):
            for name, call in calls.items():
                compute()
                started = time.thread_time()
                call()
                times[name].append(time.thread_time() - started)
        for name, found in times.items():
            rounds[name].append(median(found))
    return rounds


def _plain(folder: Path) -> Callable[[], object]:
    file = (folder / "loops.jsonl").open("a", encoding="utf-8")

    def write() -> None:
        values = {name: value.item() if hasattr(value, "item") else value for name, value in MIXED.items()}
        file.write(json.dumps({"kind": "scalars", "t": time.monotonic(), "step": 20000, **values}) + "\n")
        file.flush()

    return write


def _summary_writers(folder: Path) -> tuple[dict[str, Callable[[], object]], list[str]]:
    """Return what logs the numbers with each SummaryWriter, and the modules that are not there.

    A text would cost it as much as all of them.
    """
    numbers = {name: value for name, value in MIXED.items() if not isinstance(value, str)}

    def add(writer: Any) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, 20000)

    found, absent = dict[str, Callable[[], object]](), []
    for module in ("torch.utils.tensorboard", "tensorboardX"):
        try:
            found[f"SummaryWriter of {module}"] = partial(add, import_module(module).SummaryWriter(folder / module))
        except ImportError:
            absent.append(module)
    return found, absent


def _matrix_product() -> Callable[[], object]:
    """Return what computes for at least seven milliseconds."""
    matrix = np.random.default_rng(1).random((500, 500))
    started = time.perf_counter()
    matrix @ matrix
    times = max(1, round(0.01 / (time.perf_counter() - started)))

    def compute() -> None:
        for _ in range(times):
            matrix @ matrix

    return compute


def _against_before(folder: Path) -> Iterator[Row]:
    """Yield what each call costs against the package at the last tag, the two in turns in processes of their own."""
    root = Path(__file__).resolve().parents[3]
    tag = _git(root, "describe", "--tags", "--abbrev=0").decode().strip() or _BEFORE
    source = root / f"build/bench-{tag}"
    if not source.exists():
        packed = _git(root, "archive", tag, "reference/python/toyspec")
        if not packed:
            yield missing(_BEFORE_GROUP, "all calls", f"no commit {tag} (git fetch --unshallow)")
            return
        source.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(source)], input=packed, check=True)
    taken: dict[str, dict[str, list[float]]] = {}
    with _answering(source, folder / "before") as before, _answering(root, folder / "now") as now:
        for at in range(_ROUNDS + 1):
            for version, process in (("before", before), ("now", now)):
                process.stdin.write("\n")
                process.stdin.flush()
                for name, seconds in json.loads(process.stdout.readline()).items():
                    # The first round warms up.
                    if at:
                        taken.setdefault(name, {}).setdefault(version, []).append(seconds)
        for process in (before, now):
            process.stdin.close()
    for name, times in taken.items():
        per = {version: [seconds / COUNTS[name] for seconds in found] for version, found in times.items()}
        yield ratio(_BEFORE_GROUP, f"{name}, against {tag}", per["now"], per["before"], most=_MOST_OF_BEFORE)


def _answering(source: Path, folder: Path) -> Any:
    command = [sys.executable, str(Path(__file__).parent / "writing_calls.py"), str(folder)]
    path = {"PYTHONPATH": str(source / "reference/python")}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=os.environ | path
    )


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), *arguments], check=False, capture_output=True).stdout
