"""How fast the checker is, beside decoding the same bytes and beside starting the interpreter."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from measuring import Row, peak_mebibytes, programs, ratio, side_by_side
from streams import (
    VARIANTS,
    kaun_scalars,
    metrics_entries,
    small_bundles,
    toy_mixed,
    toy_repeating,
    toy_steps,
    toy_variant,
)
from toyspec.checker import check
from toyspec.generated.kaun_v1 import KaunV1Record
from toyspec.generated.metrics_v1 import MetricsV1Record
from toyspec.generated.toy_v1 import ToyV1Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_STEPS = 1_000_000
_FEWER = 200_000
_BUNDLES = 2_000
_CHECK = "import sys; from toyspec.cli.main import run; sys.exit(run())"


def rows(folder: Path) -> list[Row]:
    """Return the measured figures; data is written into *folder*."""
    clean = toy_steps(folder / "clean.jsonl", _STEPS)
    repeating = toy_repeating(folder / "repeating.jsonl", _STEPS)
    small = toy_steps(folder / "small.jsonl", 100)
    return [
        *_clean(clean),
        *_kinds_of_data(folder),
        *_jobs(folder),
        *_memory(clean, repeating),
        *_start(small),
    ]


def _clean(path: Path) -> list[Row]:
    data = path.read_bytes()
    times = side_by_side({"decode": lambda: _decode(data), "check": lambda: check(path)})
    rate = len(data) / times["check"].best / 1e6
    return [
        ratio("check, clean stream, against typed decoding", times, "check", "decode", 2),
        Row("check, clean stream", f"{rate:.0f} MB/s", "", None),
        Row("typed decoding, nothing checked", f"{len(data) / times['decode'].best / 1e6:.0f} MB/s", "", None),
    ]


def _kinds_of_data(folder: Path) -> Iterator[Row]:
    """Yield the ratio for each kind of data; a damaged stream is held against decoding the sound one."""
    sound = toy_steps(folder / "sound.jsonl", _FEWER)
    for variant in VARIANTS:
        path = toy_variant(folder / "variant.jsonl", _FEWER, variant)
        damaged = "damaged" in variant
        yield _against_decoding(variant, path, sound if damaged else path, 10 if damaged else 4)
    mixed = toy_mixed(folder / "mixed.jsonl", _FEWER)
    yield _against_decoding("mixed kinds with taps and regions", mixed, mixed, None)
    metrics = metrics_entries(folder / "metrics.jsonl", _FEWER)
    yield _against_decoding("metrics/v1", metrics, metrics, 2, MetricsV1Record)
    kaun = kaun_scalars(folder / "kaun.jsonl", _FEWER)
    yield _against_decoding("kaun/v1", kaun, kaun, 2, KaunV1Record)


def _against_decoding(name: str, path: Path, decoded: Path, goal: float | None, record: Any = ToyV1Record) -> Row:
    data = decoded.read_bytes()
    times = side_by_side({"decode": lambda: _decode(data, record), "check": lambda: check(path)}, rounds=3)
    return ratio(f"check, {name}, against typed decoding", times, "check", "decode", goal)


def _jobs(folder: Path) -> Iterator[Row]:
    """Yield what many small bundles cost beside reading them, and what a second process gains."""
    runs = small_bundles(folder / "runs", _BUNDLES, 100)
    paths = [path / "events.jsonl" for path in runs.iterdir()]
    times = side_by_side(
        {"read": lambda: [path.read_bytes() for path in paths], "check": lambda: check(runs)}, rounds=2
    )
    each = times["check"].best / _BUNDLES * 1e6
    yield ratio(f"check, {_BUNDLES:,} bundles of 100 steps, against reading", times, "check", "read", None)
    yield Row("check, a bundle of 100 steps among many", f"{each:.0f} us", "", None)
    walls = {jobs: _wall(partial(check, runs, jobs=jobs)) for jobs in (1, 2)}
    yield Row("check, gain in elapsed time with two jobs", f"{walls[1] / walls[2]:.2f}x", "", None)


def _wall(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _memory(clean: Path, repeating: Path) -> list[Row]:
    found = []
    for name, path in (("clean", clean), ("a finding a line", repeating)):
        peak = peak_mebibytes(["-c", _CHECK, "check", str(path)])
        found.append(
            Row(f"peak memory of check, {_STEPS:,} lines, {name}", f"{peak:.0f} MiB", "under 64 MiB", peak < 64)
        )
    return found


def _start(path: Path) -> list[Row]:
    times = programs(
        {
            "interpreter": ["-c", "pass"],
            "msgspec": ["-c", "import msgspec"],
            "check": ["-c", _CHECK, "check", str(path)],
        }
    )
    return [ratio("check, small bundle, against `import msgspec`", times, "check", "msgspec", 1.5)]


def _decode(data: bytes, record: Any = ToyV1Record) -> None:
    """Decode a stream in blocks of whole lines, as fast as msgspec can, and drop the records."""
    decoder = msgspec.json.Decoder(record)
    start = 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + (1 << 18)) + 1
        decoder.decode_lines(data[start:end])
        start = end


if __name__ == "__main__":
    sys.exit("run the folder: python reference/python/bench")
