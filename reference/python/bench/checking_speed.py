"""How fast the checker is, beside decoding the same bytes and beside starting the interpreter."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from measuring import Row, alternating, peak_mebibytes, programs, ratio, single, spread
from streams import (
    VARIANTS,
    decode,
    kaun_scalars,
    metrics_entries,
    small_bundles,
    toy_mixed,
    toy_repeating,
    toy_steps,
    toy_variant,
    toy_whole_floats,
)
from toyspec.checker import check
from toyspec.generated.kaun_v1 import KaunV1Record
from toyspec.generated.metrics_v1 import MetricsV1Record
from toyspec.generated.toy_v1 import ToyV1Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_GROUP = "checker"
_BUNDLES_PER_ROW = 20
_CHECK = "import sys; from toyspec.cli.main import run; sys.exit(run())"
_GOALS = {"torn": 2, "every 100th line damaged": 10}


def rows(folder: Path, size: int) -> Iterator[Row]:
    """Yield the measured figures; data of *size* records is written into *folder*."""
    clean = toy_steps(folder / "clean.jsonl", size)
    yield from _clean(clean)
    yield from _kinds_of_data(folder, size // 4)
    yield from _bundles(folder, size // _BUNDLES_PER_ROW)
    yield from _memory(clean, toy_repeating(folder / "repeating.jsonl", size), size)
    yield from _start(toy_steps(folder / "small.jsonl", 100))


def _clean(path: Path) -> Iterator[Row]:
    data = path.read_bytes()
    times = alternating({"decode": lambda: decode(data, ToyV1Record), "check": lambda: check(path)})
    yield ratio(_GROUP, "clean steps, against typed decoding", times["check"], times["decode"], most=2)
    for name, title in (("check", "clean steps"), ("decode", "typed decoding, nothing checked")):
        yield spread(_GROUP, title, "MB/s", [len(data) / seconds / 1e6 for seconds in times[name]])


def _kinds_of_data(folder: Path, size: int) -> Iterator[Row]:
    """Yield the ratio for each kind of data; a damaged stream is compared with decoding the intact one."""
    sound = toy_steps(folder / "sound.jsonl", size)
    for variant in VARIANTS:
        path = toy_variant(folder / "variant.jsonl", size, variant)
        decoded = sound if variant in _GOALS else path
        yield _against_decoding(variant, path, decoded, _GOALS.get(variant, 4))
    floats = toy_whole_floats(folder / "floats.jsonl", size)
    times = alternating({"digits": lambda: check(sound), "floats": lambda: check(floats)})
    yield ratio(_GROUP, "integers written 1.0, against digits only", times["floats"], times["digits"], most=2)
    mixed = toy_mixed(folder / "mixed.jsonl", size)
    yield _against_decoding("mixed kinds with taps and regions", mixed, mixed, 2)
    metrics = metrics_entries(folder / "metrics.jsonl", size)
    yield _against_decoding("metrics/v1", metrics, metrics, 2, MetricsV1Record)
    kaun = kaun_scalars(folder / "kaun.jsonl", size)
    yield _against_decoding("kaun/v1", kaun, kaun, 2, KaunV1Record)


def _against_decoding(name: str, path: Path, decoded: Path, goal: float, record: Any = ToyV1Record) -> Row:
    data = decoded.read_bytes()
    times = alternating({"decode": lambda: decode(data, record), "check": lambda: check(path)})
    return ratio(_GROUP, f"{name}, against typed decoding", times["check"], times["decode"], most=goal)


def _bundles(folder: Path, bundles: int) -> Iterator[Row]:
    """Yield what many small bundles cost beside reading and decoding them, and what a second process gains."""
    runs = small_bundles(folder / "runs", bundles, 100)
    paths = [path / "events.jsonl" for path in runs.iterdir()]
    times = alternating(
        {
            "read": lambda: [path.read_bytes() for path in paths],
            "decode": lambda: _decode_all(paths),
            "check": lambda: check(runs),
        },
        rounds=3,
    )
    name = f"{bundles:,} bundles of 100 steps"
    yield ratio(_GROUP, f"{name}, against reading and typed decoding", times["check"], times["decode"], most=2)
    yield ratio(_GROUP, f"{name}, against reading alone", times["check"], times["read"])
    gains = [_wall(partial(check, runs)) / _wall(partial(check, runs, workers=2)) for _ in range(2)]
    yield spread(_GROUP, f"{name}, elapsed time with one job against two", "x", gains)


def _decode_all(paths: list[Path]) -> None:
    for path in paths:
        decode(path.read_bytes(), ToyV1Record)


def _wall(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _memory(clean: Path, repeating: Path, size: int) -> Iterator[Row]:
    for name, path in (("clean", clean), ("with a finding each", repeating)):
        peak = peak_mebibytes(["-c", _CHECK, "check", str(path)])
        yield single(_GROUP, f"peak memory, {size:,} lines, {name}", "MiB", peak, most=64)


def _start(path: Path) -> Iterator[Row]:
    times = programs(
        {
            "msgspec": [sys.executable, "-c", "import msgspec"],
            "check": [sys.executable, "-c", _CHECK, "check", str(path)],
        }
    )
    yield ratio(
        _GROUP, "`toyspec check` of 100 steps, against `import msgspec`", times["check"], times["msgspec"], most=1.5
    )


if __name__ == "__main__":
    sys.exit("run the folder: python reference/python/bench")
