"""What a log call costs the training loop, beside other ways to write the same step."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from measuring import Row, alternating, missing, per_call, ratio, spread
from toyspec.core.metrics.log import MetricsLog
from toyspec.core.writing.run_writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_GROUP = "writer"
_CALLS = 10_000
_ROUNDS = 9
_MEMBERS: dict[str, Any] = {"loss": 2.5, "lr": 3e-4, "grad_norm": 0.5, "tokens": 4096, "wall_us": 900}
_MIXED: dict[str, Any] = {
    "loss": np.float32(2.5), "acc": 0.5, "n": 7, "lr": np.float64(3e-4), "flag": True, "zeta": 1.25, "beta": 0.9,
    "phase_name": "warm",
}  # fmt: skip
"""Values as programs log them: scalars of Python and NumPy, in no order, and a text."""
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
        "mixed": lambda: run.log(_MIXED),
        "mixed by json": partial(_write_mixed, (folder / "mixed.jsonl").open("a", encoding="utf-8")),
        "note": lambda: run.note("a remark of a few words"),
        "entry": lambda: log.record(step=1, wall_time_ms=0.5, loss=2.5, grad_norm=0.1, throughput_samples_per_sec=512),
    }
    functions |= _peers(folder)
    times = alternating({name: _repeated(call) for name, call in functions.items()}, _ROUNDS, "thread")
    yield spread(_GROUP, "run.step with five members", "us", per_call(times["step"], _CALLS), most=3)
    yield spread(_GROUP, "run.step of a closed writer", "us", per_call(times["ended"], _CALLS), most=0.3)
    for name, title in (("note", "run.note"), ("entry", "MetricsLog.record"), ("write", "the system's write alone")):
        yield spread(_GROUP, title, "us", per_call(times[name], _CALLS))
    yield spread(_GROUP, "run.log of eight mixed values", "us", per_call(times["mixed"], _CALLS), most=12)
    yield ratio(
        _GROUP,
        "run.log of eight mixed values, against json.dumps, flushed",
        times["mixed"],
        times["mixed by json"],
        most=1.3,
    )
    yield from _against_peers(times)
    os.close(descriptor)
    log.close()
    run.close()


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
    file.write(json.dumps({"kind": "step", "t": 1.901927, "step": 20000, **_MEMBERS}) + "\n")
    file.flush()


def _write_mixed(file: Any) -> None:
    values = {name: value.item() if hasattr(value, "item") else value for name, value in _MIXED.items()}
    file.write(json.dumps({"kind": "scalars", "t": time.monotonic(), "step": 20000, **values}) + "\n")
    file.flush()


def _write_once(orjson: Any, descriptor: int) -> None:
    event = {"kind": "step", "t": 1.901927, "step": 20000, **_MEMBERS}
    os.write(descriptor, orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))


def _appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _repeated(call: Callable[[], object]) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(_CALLS):
            call()

    return repeat
