"""Makes the data that is measured: the same bytes on every machine."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_SEED = 20260531
_INTEGER = re.compile(rb'(?<=[a-z]":)[0-9]+(?=[,}])')


def toy_steps(path: Path, steps: int) -> Path:
    """Write a complete toy/v1 stream of *steps* train steps, canonical, of about 150 bytes a line; return *path*."""
    with path.open("wb") as file:
        file.writelines(_toy_lines(steps))
    return path


def toy_repeating(path: Path, steps: int) -> Path:
    """Write a toy/v1 stream in which every step repeats the one before: a finding a line; return *path*."""
    with path.open("wb") as file:
        for line in _toy_lines(steps):
            head, found, tail = line.partition(b'"step":')
            file.write(head + found + b"7" + tail[tail.index(b",") :] if found and b'"loss"' in tail else line)
    return path


def toy_wrong_types(path: Path, steps: int) -> Path:
    """Write the stream of :func:`toy_steps` with a number in quotes in every step: a finding a line; return *path*."""
    with path.open("wb") as file:
        file.writelines(line.replace(b'"lr":0.0003', b'"lr":"0.0003"') for line in _toy_lines(steps))
    return path


def _toy_lines(steps: int) -> Iterator[bytes]:
    numbers = random.Random(_SEED)
    yield b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"bench","phase":"train"}\n'
    for step in range(1, steps + 1):
        loss, norm = 2.0 + numbers.random(), 1.0 + numbers.random()
        yield (
            f'{{"kind":"step","phase":"train","t":{step * 0.125},"step":{step},"loss":{loss},"lr":0.0003,'
            f'"grad_norm":{norm},"tokens":4096,"wall_us":125000}}\n'
        ).encode()
    yield f'{{"kind":"run_end","t":{steps * 0.125},"reason":"completed","final_step":{steps}}}\n'.encode()


def toy_variant(path: Path, steps: int, variant: Variant) -> Path:
    """Write the stream of :func:`toy_steps` as another producer would, or as an accident left it; return *path*."""
    with path.open("wb") as file:
        for number, line in enumerate(_toy_lines(steps)):
            file.write(_CHANGES[variant](number, line))
    return path


def toy_whole_floats(path: Path, steps: int) -> Path:
    """Write the stream of :func:`toy_steps` with a fraction in every integer, as runners of Toy do; return *path*."""
    with path.open("wb") as file:
        file.writelines(_INTEGER.sub(rb"\g<0>.0", line) for line in _toy_lines(steps))
    return path


def toy_mixed(path: Path, steps: int) -> Path:
    """Write a complete toy/v1 stream with taps, timings, notes and regions between its steps; return *path*."""
    with path.open("wb") as file:
        for number, line in enumerate(_toy_lines(steps)):
            file.write(line)
            if 0 < number <= steps:
                file.writelines(f'{{"kind":{event}}}\n'.encode() for event in _events(number))
    return path


def metrics_entries(path: Path, entries: int) -> Path:
    """Write a metrics/v1 stream; return *path*."""
    numbers = random.Random(_SEED)
    with path.open("wb") as file:
        for step in range(entries):
            file.write(
                f'{{"step":{step},"wall_time_ms":{step * 100}.5,"loss":{numbers.random()},"grad_norm":'
                f'{numbers.random()},"throughput_samples_per_sec":12.5,"extra":{{"lr":0.0003}}}}\n'.encode()
            )
    return path


def kaun_scalars(path: Path, scalars: int) -> Path:
    """Write a kaun/v1 stream; return *path*."""
    numbers = random.Random(_SEED)
    with path.open("wb") as file:
        for step in range(scalars):
            file.write(
                f'{{"type":"scalar","step":{step},"epoch":1,"tag":"train/loss","value":{numbers.random()},'
                f'"wall_time":{step}.25}}\n'.encode()
            )
    return path


def small_bundles(folder: Path, bundles: int, steps: int) -> Path:
    """Write many small complete runs below *folder*; return it."""
    lines = b"".join(_toy_lines(steps))
    for number in range(bundles):
        run = folder / f"run-{number:05}"
        run.mkdir(parents=True)
        (run / "events.jsonl").write_bytes(lines.replace(b'"bench"', f'"{run.name}"'.encode(), 1))
    return folder


def decode(data: bytes, record: Any) -> None:
    """Decode a stream in blocks of whole lines, as fast as msgspec can, and drop the records."""
    decoder = msgspec.json.Decoder(record)
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + (1 << 18)) + 1
        decoder.decode_lines(data[start:end])
        start = end or len(data)


def _events(step: int) -> Iterator[str]:
    t = step * 0.125
    if step % 3 == 0:
        bins = ",".join(map(str, range(32)))
        yield (
            f'"tap","t":{t},"step":{step},"region":"blk.{step % 12}","layer":3,"shape":[8,512,768],'
            f'"dtype":"f32","l2":{t + 0.1},"mean":0.01,"histogram":[{bins}]'
        )
    if step % 10 == 0:
        yield f'"op_timing","t":{t},"step":{step},"buckets":{{"matmul":12,"softmax":{step}}}'
    if step % 40 == 0:
        yield f'"region_enter","t":{t},"region":"save"'
        yield f'"region_exit","t":{t},"region":"save"'
    if step % 70 == 0:
        yield f'"note","t":{t},"text":"saved: checkpoint {step}"'


def _reordered(_: int, line: bytes) -> bytes:
    return json.dumps(dict(reversed(json.loads(line).items()))).encode() + b"\n"


def _other_numbers(_: int, line: bytes) -> bytes:
    return line.replace(b"0.0003", b"3.0e-04").replace(b'"t":', b'"t": ')


def _unknown_keys(number: int, line: bytes) -> bytes:
    return line.replace(b"}\n", b',"mfu":0.5,"node":"a:1"}\n') if number and b"wall_us" in line else line


def _damaged(number: int, line: bytes) -> bytes:
    return line[:40] + b"\n" if number % 100 == 50 else line


def _torn(_: int, line: bytes) -> bytes:
    return line if b"run_end" not in line else line[:20]


Variant = Literal["other key order", "other number text", "unknown keys", "torn", "every 100th line damaged"]
_CHANGES: dict[Variant, Callable[[int, bytes], bytes]] = {
    "other key order": _reordered,
    "other number text": _other_numbers,
    "unknown keys": _unknown_keys,
    "torn": _torn,
    "every 100th line damaged": _damaged,
}
VARIANTS = tuple(_CHANGES)
