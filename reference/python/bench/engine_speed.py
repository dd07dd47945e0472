"""How fast both engines are on the same bytes, in turns: the compiled one beside plain Python, and the Rust program."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import Row, alternating, missing, programs, ratio, spread
from streams import (
    VARIANTS,
    kaun_scalars,
    metrics_entries,
    small_bundles,
    toy_mixed,
    toy_repeating,
    toy_steps,
    toy_variant,
    toy_whole_floats,
)
from toyspec import engine
from toyspec.checker import check
from toyspec.runs.listing import list_runs
from toyspec.runs.summarizing import summarize_run

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_GROUP = "both engines"
_RUST = Path(__file__).resolve().parents[3] / "reference/rust/target/release/toyspec-rs"


def rows(folder: Path, size: int) -> Iterator[Row]:
    """Yield the measured figures; data of *size* records is written into *folder*."""
    os.environ.pop(engine.VARIABLE, None)
    if engine.native() is None:
        yield missing(_GROUP, "the compiled engine", "make engine")
        return
    clean = toy_steps(folder / "clean.jsonl", size)
    speed = yield from _checked("clean steps", clean, least=4)
    yield from _beside_rust(clean)
    streams: dict[str, Path] = {
        variant: toy_variant(folder / f"{variant}.jsonl", size // 4, variant) for variant in VARIANTS
    }
    streams["integers written 1.0"] = toy_whole_floats(folder / "floats.jsonl", size // 4)
    streams["mixed kinds with taps and regions"] = toy_mixed(folder / "mixed.jsonl", size // 4)
    streams["metrics/v1"] = metrics_entries(folder / "metrics.jsonl", size // 4)
    streams["kaun/v1"] = kaun_scalars(folder / "kaun.jsonl", size // 4)
    streams["a finding on every line"] = toy_repeating(folder / "repeating.jsonl", size // 4)
    for name, path in streams.items():
        own = yield from _checked(name, path)
        yield spread(_GROUP, f"{name}: speed of the engine, against clean steps", "x", [own / speed])
    yield from _compared(f"summary of {size:,} steps, all metrics", lambda: summarize_run(str(clean)), rounds=2)
    runs = small_bundles(folder / "runs", size // 20, 100)
    yield from _compared(f"{size // 20:,} bundles of 100 steps, check", partial(check, runs), rounds=2)
    yield from _compared(f"{size // 20:,} bundles of 100 steps, list_runs", partial(list_runs, runs), rounds=2)


def _with(name: str, work: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        os.environ[engine.VARIABLE] = name
        return work()

    return run


def _compared(name: str, work: Callable[[], object], *, rounds: int = 5, least: float | None = None) -> Iterator[Row]:
    times = alternating({each: _with(each, work) for each in ("native", "python")}, rounds)
    goal = {} if least is None else {"least": least}
    yield spread(_GROUP, f"{name}: engine", "s", times["native"])
    yield spread(_GROUP, f"{name}: plain Python", "s", times["python"])
    yield ratio(_GROUP, f"{name}: times as fast", times["python"], times["native"], **goal)


def _checked(name: str, path: Path, least: float | None = None) -> Generator[Row, None, float]:
    """Yield the speed of both engines on the stream at *path*; return that of the compiled one, in MB/s."""
    megabytes = path.stat().st_size / 1e6
    times = alternating({each: _with(each, partial(check, path)) for each in ("native", "python")})
    speeds = [megabytes / seconds for seconds in times["native"]]
    yield spread(_GROUP, f"{name}: engine", "MB/s", speeds)
    yield spread(_GROUP, f"{name}: plain Python", "MB/s", [megabytes / seconds for seconds in times["python"]])
    goal = {} if least is None else {"least": least}
    yield ratio(_GROUP, f"{name}: times as fast", times["python"], times["native"], **goal)
    return sorted(speeds)[len(speeds) // 2]


def _beside_rust(path: Path) -> Iterator[Row]:
    """Yield the speed of the program, which has no interpreter to start."""
    if not _RUST.exists():
        yield missing(_GROUP, "toyspec-rs check", "cargo build --release in reference/rust")
        return
    times = programs({"rust": [str(_RUST), "check", str(path)]}, rounds=5)["rust"]
    own = alternating({"native": _with("native", partial(check, path))})["native"]
    yield ratio(_GROUP, "clean steps: engine, against toyspec-rs with its start", times, own, least=0.9)
