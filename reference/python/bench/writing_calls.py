"""The calls that programs make of a run, timed with whatever package is imported.

As a program, ``python writing_calls.py FOLDER`` answers each line of its input with the CPU seconds of one round by
call, as JSON: two versions of the package take turns, each in a process of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import toyspec
from measuring import alternating
from toyspec import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable

_CALLS = 2_000
_STARTS = 20
MEMBERS: dict[str, Any] = {"loss": 2.5, "lr": 3e-4, "grad_norm": 0.5, "tokens": 4096, "wall_us": 900}
MIXED: dict[str, Any] = {
    "loss": np.float32(2.5), "acc": 0.5, "n": 7, "lr": np.float64(3e-4), "flag": True, "zeta": 1.25, "beta": 0.9,
    "phase_name": "warm",
}  # fmt: skip
"""Values as programs log them: scalars of Python and NumPy, in no order, and a text."""
_FLOATS = {f"metric_{at}": at / 7 for at in range(8)}
_NESTED = {"train": {"loss": 2.5, "acc": 0.5}, "recall": [0.5, 0.25, 0.125]}
_PER_CALL: dict[str, Callable[[Any], object]] = {
    "run.step of five members": lambda run: run.step(**MEMBERS),
    "run.step with eight mixed values in extra": lambda run: run.step(loss=2.5, extra=MIXED),
    "run.log of eight floats": lambda run: run.log(_FLOATS),
    "run.log of eight mixed values": lambda run: run.log(MIXED),
    "run.log of nested values": lambda run: run.log(_NESTED),
    "run.eval": lambda run: run.eval("val", loss=2.5, extra={"acc": 0.5}),
    "run.note": lambda run: run.note("a remark of a few words"),
}
_CLOSED, _STARTED = "run.step of a closed writer", "start_run, a step and the end"
COUNTS = {**dict.fromkeys([*_PER_CALL, _CLOSED], _CALLS), _STARTED: _STARTS}
"""How many calls a round has of each kind."""


def _answer(folder: Path) -> None:
    run = toyspec.start_run(folder / "calls", run_id="a", git=None)
    closed = RunWriter(folder / "closed")
    closed.run_start()
    closed.close()
    started = iter(range(10**9))

    def start() -> None:
        for _ in range(_STARTS):
            with toyspec.start_run(folder / "starts", run_id=str(next(started)), git=None) as each:
                each.step(loss=2.5)

    functions = {name: _repeated(call, run) for name, call in _PER_CALL.items()}
    functions |= {_CLOSED: _repeated(_PER_CALL["run.step of five members"], closed), _STARTED: start}
    for _ in sys.stdin:
        times = alternating(functions, 1, "thread")
        print(json.dumps({name: seconds for name, (seconds,) in times.items()}), flush=True)


def _repeated(call: Callable[[Any], object], run: Any) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(_CALLS):
            call(run)

    return repeat


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
