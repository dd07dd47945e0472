"""How fast both engines check the same bytes, in turns, beside typed decoding, toyspec-rs and a bare interpreter."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measuring import Row, alternating, missing, peak_mebibytes, programs, ratio, single, spread
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
    toy_wrong_types,
)
from toyspec import open_run
from toyspec.core import engine
from toyspec.core.checker import check
from toyspec.core.generated.toy_v1 import ToyV1Record
from toyspec.core.runs.run import list_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GROUP = "both engines"
_BUNDLES_PER_ROW = 20
# Steps of a file that the engine divides.
_LARGE = 400_000
# Steps of 44 MB.
_LONG = 280_000
_CHECK = "import sys; from toyspec.core.command_line.main import run; sys.exit(run())"
_RUST = Path(__file__).resolve().parents[3] / "reference/rust/target/release/toyspec-rs"


class _Goals(NamedTuple):
    """The least speed of the engine, as a part of that on clean steps, and of plain Python, in MB/s."""

    engine: float
    plain: float | None = None


_GOALS = {
    "default spaces, other key order": _Goals(0.5, 40),
    "other number text": _Goals(0.5),
    "unknown keys": _Goals(0.5, 10),
    "torn": _Goals(0.9),
    "every 100th line damaged": _Goals(0.6),
    "integers written 1.0": _Goals(0.5),
    "mixed kinds with taps and regions": _Goals(0.6),
    "metrics/v1": _Goals(0.6),
    "kaun/v1": _Goals(0.6),
    "a step that repeats on every line": _Goals(0.15),
    "a wrong type on every line": _Goals(0.15),
}


def rows(folder: Path, size: int) -> Iterator[Row]:
    """Yield the measured figures; data of *size* records is written into *folder*."""
    os.environ.pop(engine.VARIABLE, None)
    if engine.native() is None:
        yield missing(_GROUP, "the compiled engine", "make engine")
        return
    clean = toy_steps(folder / "clean.jsonl", size)
    yield from _checked("clean steps", clean, least=4)
    yield from _beside_rust(clean)
    yield from _beside_decoding(clean)
    for name, path in _streams(folder, size // 4).items():
        goals = _GOALS[name]
        yield from _checked(name, path, plain=goals.plain)
        yield from _beside_clean(name, path, goals.engine)
    yield from _of_long_run(toy_steps(folder / "long.jsonl", _LONG), toy_steps(folder / "short.jsonl", 100))
    number = size // _BUNDLES_PER_ROW
    runs = small_bundles(folder / "runs", number, 100)
    each = f"{number:,} bundles of 100 steps"
    yield from _compared(f"{each}, check", partial(check, runs), rounds=2, most=1.2e-4 * number)
    yield from _compared(f"{each}, list_runs", partial(list_runs, runs), rounds=2, most=0.4e-4 * number)
    yield from _memory(clean, toy_repeating(folder / "finding.jsonl", size), size)
    yield from _on_two_threads(toy_steps(folder / "large.jsonl", max(4 * size, _LARGE)))
    yield from _start(toy_steps(folder / "small.jsonl", 100))


def _streams(folder: Path, size: int) -> dict[str, Path]:
    found: dict[str, Path] = {variant: toy_variant(folder / f"{variant}.jsonl", size, variant) for variant in VARIANTS}
    # json.dumps writes spaces, and the keys come in the order of the program.
    streams = {"default spaces, other key order": found.pop("other key order")}
    streams |= found
    streams["integers written 1.0"] = toy_whole_floats(folder / "floats.jsonl", size)
    streams["mixed kinds with taps and regions"] = toy_mixed(folder / "mixed.jsonl", size)
    streams["metrics/v1"] = metrics_entries(folder / "metrics.jsonl", size)
    streams["kaun/v1"] = kaun_scalars(folder / "kaun.jsonl", size)
    streams["a step that repeats on every line"] = toy_repeating(folder / "repeating.jsonl", size)
    # Plain Python takes a millisecond to name what is wrong with a line.
    streams["a wrong type on every line"] = toy_wrong_types(folder / "types.jsonl", size // 10)
    return streams


def _with(name: str, work: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        os.environ[engine.VARIABLE] = name
        return work()

    return run


def _compared(name: str, work: Callable[[], object], *, rounds: int, most: float | None = None) -> Iterator[Row]:
    """Yield the CPU seconds of both engines; the engine takes *most* at most."""
    times = alternating({each: _with(each, work) for each in ("native", "python")}, rounds)
    yield spread(_GROUP, f"{name}: engine", "s", times["native"], **_goal(most=most))
    yield spread(_GROUP, f"{name}: plain Python", "s", times["python"])
    yield ratio(_GROUP, f"{name}: times as fast", times["python"], times["native"])


def _beside_clean(name: str, path: Path, least: float) -> Iterator[Row]:
    """Yield the speed of the engine on the stream at *path* beside that on clean steps, in turns.

    Both have as many lines, so that what a check takes once, however short the stream, weighs the same.
    """
    with path.open("rb") as file:
        clean = toy_steps(path.parent / "beside.jsonl", sum(1 for _ in file))
    times = alternating({each.stem: _with("native", partial(check, each)) for each in (path, clean)}, 9)
    share = path.stat().st_size / clean.stat().st_size
    as_long = [seconds * share for seconds in times[clean.stem]]
    yield ratio(_GROUP, f"{name}: engine, against clean steps", as_long, times[path.stem], least=least)


def _checked(name: str, path: Path, *, least: float | None = None, plain: float | None = None) -> Iterator[Row]:
    """Yield the speed of both engines on the stream at *path*.

    The engine is *least* times as fast at least, and plain Python checks *plain* MB/s.
    """
    megabytes = path.stat().st_size / 1e6
    times = alternating({each: _with(each, partial(check, path)) for each in ("native", "python")})
    speeds = {each: [megabytes / seconds for seconds in taken] for each, taken in times.items()}
    yield spread(_GROUP, f"{name}: engine", "MB/s", speeds["native"])
    yield spread(_GROUP, f"{name}: plain Python", "MB/s", speeds["python"], **_goal(least=plain))
    yield ratio(_GROUP, f"{name}: times as fast", times["python"], times["native"], **_goal(least=least))


def _goal(**goal: float | None) -> dict[str, Any]:
    return {sense: figure for sense, figure in goal.items() if figure is not None}


def _beside_rust(path: Path) -> Iterator[Row]:
    """Yield the speed of the program, which has no interpreter to start."""
    if not _RUST.exists():
        yield missing(_GROUP, "toyspec-rs check", "cargo build --release in reference/rust")
        return
    times = programs({"rust": [str(_RUST), "check", str(path)]}, rounds=5)["rust"]
    own = alternating({"native": _with("native", partial(check, path))})["native"]
    yield ratio(_GROUP, "clean steps: engine, against toyspec-rs with its start", times, own, least=0.9)


def _beside_decoding(path: Path) -> Iterator[Row]:
    """Yield what plain Python takes beside decoding the same bytes into types, which checks nothing."""
    data = path.read_bytes()
    times = alternating({"decode": lambda: decode(data, ToyV1Record), "check": _with("python", partial(check, path))})
    yield ratio(_GROUP, "clean steps: plain Python, against typed decoding", times["check"], times["decode"], most=2)


def _of_long_run(long: Path, short: Path) -> Iterator[Row]:
    """Yield what looking at a long run takes: the losses, and two commands beyond what they take of a short one."""
    name = f"run of {long.stat().st_size / 1e6:.0f} MB"
    yield from _compared(f"{name}, `open_run(…)`", lambda: open_run(long), rounds=5, most=0.1)
    for command, most in (("show", 0.3), ("tail --once -n 2", 0.05)):
        line = [sys.executable, "-c", _CHECK, *command.split()]
        for shown, each, goal in (("engine", "native", most), ("plain Python", "python", None)):
            os.environ[engine.VARIABLE] = each
            times = programs({"long": [*line, str(long)], "short": [*line, str(short)]}, rounds=7)
            beyond = [one - other for one, other in zip(times["long"], times["short"], strict=True)]
            yield spread(
                _GROUP, f"{name}, `toyspec {command}` beyond its start: {shown}", "s", beyond, **_goal(most=goal)
            )


def _memory(clean: Path, repeating: Path, size: int) -> Iterator[Row]:
    for name, path in (("clean", clean), ("with a finding each", repeating)):
        for shown, each in (("engine", "native"), ("plain Python", "python")):
            os.environ[engine.VARIABLE] = each
            peak = peak_mebibytes(["-c", _CHECK, "check", "--workers", "4", str(path)])
            yield single(_GROUP, f"peak memory of {size:,} lines, {name}: {shown}", "MiB", peak, most=64)


def _on_two_threads(path: Path) -> Iterator[Row]:
    """Yield how much sooner two threads have checked one file: a figure of a machine that does nothing else."""
    times = alternating(
        {str(each): _with("native", partial(check, path, workers=each)) for each in (1, 2)}, 7, "elapsed"
    )
    yield ratio(_GROUP, "one file on two threads, elapsed time: times as fast", times["1"], times["2"], least=1.8)


def _start(path: Path) -> Iterator[Row]:
    """Yield what `toyspec check` of a small run takes from its start, beside loading one library."""
    commands = {
        "msgspec": [sys.executable, "-c", "import msgspec"],
        "check": [sys.executable, "-c", _CHECK, "check", str(path)],
    }
    for shown, each in (("engine", "native"), ("plain Python", "python")):
        os.environ[engine.VARIABLE] = each
        times = programs(commands)
        name = f"`toyspec check` of 100 steps, against `import msgspec`: {shown}"
        yield ratio(_GROUP, name, times["check"], times["msgspec"], most=1.43)
