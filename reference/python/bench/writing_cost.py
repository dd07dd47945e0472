"""What a log call costs the training loop, beside handing the same bytes to the system."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from measuring import Row, side_by_side
from toyspec.metrics_log import MetricsLog
from toyspec.toy_writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_CALLS = 20_000
_MICROSECONDS = 1e6
_LINE = (
    b'{"kind":"step","t":1.901927,"step":20000,"loss":2.5,"lr":0.0003,"grad_norm":0.5,"tokens":4096,"wall_us":900}\n'
)


def rows(folder: Path) -> Iterator[Row]:
    """Yield the cost of one call in microseconds of CPU time, into files in *folder*."""
    run = RunWriter(folder / "writing")
    run.run_start(model="llama")
    log = MetricsLog.open(folder / "writing.jsonl")
    descriptor = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    times = side_by_side(
        {
            "write": _repeated(lambda: os.write(descriptor, _LINE)),
            "step": _repeated(lambda: run.step(loss=2.5, lr=3e-4, grad_norm=0.5, tokens=4096, wall_us=900)),
            "note": _repeated(lambda: run.note("a remark of a few words")),
            "entry": _repeated(
                lambda: log.record(step=1, wall_time_ms=0.5, loss=2.5, grad_norm=0.1, throughput_samples_per_sec=512)
            ),
        },
        rounds=9,
    )
    micros = {name: time.best / _CALLS * _MICROSECONDS for name, time in times.items()}
    step = f"{micros['step']:.1f} us ({micros['write']:.1f} us of it the system's write)"
    yield Row("run.step with five members", step, "at most 3 us", micros["step"] <= 3)
    yield Row("run.note", f"{micros['note']:.1f} us", "", None)
    yield Row("MetricsLog.record", f"{micros['entry']:.1f} us", "", None)
    os.close(descriptor)
    log.close()
    run.close()


def _repeated(call: Callable[[], object]) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(_CALLS):
            call()

    return repeat
