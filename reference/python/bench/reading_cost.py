"""What a typed record costs that is read, beside the bare library; and a step that a closed writer is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from measuring import Row, ratio, side_by_side
from streams import toy_steps
from toyspec.generated.toy_v1 import ToyV1Record
from toyspec.reader import read
from toyspec.toy_writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STEPS = 50_000
_MICROSECONDS = 1e6


def rows(folder: Path) -> Iterator[Row]:
    """Yield the ratio for reading, and the cost of a step in microseconds of CPU time."""
    path = toy_steps(folder / "read.jsonl", _STEPS)
    data = path.read_bytes()
    decoder = msgspec.json.Decoder(ToyV1Record)
    ended = RunWriter(folder / "ended")
    ended.run_start(model="bench")
    ended.close()
    times = side_by_side(
        {
            "bare": lambda: [record.t for record in decoder.decode_lines(data)],
            "typed": lambda: [record.event.t for record in read(path)],
            "inactive": lambda: _write(ended),
        },
        rounds=3,
    )
    yield ratio("read, typed records, against typed decoding", times, "typed", "bare", 1.43)
    cost = times["inactive"].best / _STEPS * _MICROSECONDS
    yield Row("run.step of a writer that is closed", f"{cost:.2f} us", "under 0.3 us", cost < 0.3)


def _write(run: RunWriter) -> None:
    for _ in range(_STEPS):
        run.step(loss=1.5, lr=3e-4, grad_norm=0.5, tokens=4096, wall_us=125_000)
