"""Makes the runs that the viewer is measured on, with a spike and a NaN planted in each curve of the loss."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPIKE = 50.1
"""The loss of one step of each run; no other step has half of it."""


class Sizes(NamedTuple):
    """Runs and steps of each folder of runs."""

    a: tuple[int, int]
    b: tuple[int, int]
    c: tuple[int, int]
    d: tuple[int, int]

    @classmethod
    def of(cls, rows: int) -> Sizes:
        """Return the sizes for *rows* steps in a folder; with 1,000,000 those that other tools were measured at."""
        long, many = max(20, rows // 100), max(20, rows // 2000)
        return cls((100, long), (1, max(20, rows)), (1000, many), (max(20, rows // 100), 100))


def write_folder(folder: Path, size: tuple[int, int]) -> Path:
    """Write complete runs of five numbers a step below *folder*; return it."""
    runs, steps = size
    for number in range(runs):
        run = folder / f"run-{number:04}"
        run.mkdir(parents=True)
        with (run / "events.jsonl").open("wb") as file:
            file.writelines(_lines(number, steps))
    return folder


def planted_steps(number: int, steps: int) -> tuple[int, int]:
    """Return the step of the spike and that of the NaN of run *number* of *steps* steps."""
    spike, lost = random.Random(number).sample(range(2, steps), 2)
    return spike, lost


def flip_two_bytes(stream: Path) -> None:
    """Flip two neighbouring bytes in the middle of a line in the middle of *stream*."""
    data = bytearray(stream.read_bytes())
    lines = bytes(data).splitlines(keepends=True)
    at = sum(map(len, lines[: len(lines) // 2])) + len(lines[len(lines) // 2]) // 2
    data[at] ^= 0x80
    data[at + 1] ^= 0x80
    stream.write_bytes(data)


def _lines(number: int, steps: int) -> Iterator[bytes]:
    chance = random.Random(number)
    spike, lost = chance.sample(range(2, steps), 2)
    assert (spike, lost) == planted_steps(number, steps)
    yield (
        f'{{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"run-{number:04}","phase":"train",'
        f'"started_at":"2026-11-22T10:{number % 60:02}:00Z","config":{{"lr":{10 ** -chance.uniform(2, 5):.3g},'
        f'"seed":{number}}}}}\n'
    ).encode()
    level = chance.uniform(1.5, 2.5)
    for step in range(1, steps + 1):
        loss = level + 4 * math.exp(-6 * step / steps) + chance.gauss(0, 0.1)
        shown = "null" if step == lost else repr(SPIKE if step == spike else round(loss, 6))
        norm, wall = round(0.5 + chance.random(), 6), chance.randrange(120_000, 130_000)
        yield (
            f'{{"kind":"step","phase":"train","t":{step * 0.125},"step":{step},"loss":{shown},'
            f'"lr":{3e-4 * (1 - step / (steps + 1)):.6g},"grad_norm":{norm},"tokens":4096,"wall_us":{wall}}}\n'
        ).encode()
    yield f'{{"kind":"run_end","t":{steps * 0.125},"reason":"completed","final_step":{steps}}}\n'.encode()
