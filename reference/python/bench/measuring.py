"""Measures functions side by side: rounds in turn, so that what else the machine does hits all alike."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Time(NamedTuple):
    """Seconds over several rounds."""

    best: float
    worst: float


class Row(NamedTuple):
    """One measured figure beside its goal."""

    name: str
    figure: str
    goal: str
    met: bool | None
    """Whether the goal is met; None where there is none."""


def side_by_side(functions: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, Time]:
    """Return the CPU seconds of each function, measured in turn *rounds* times."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return {name: Time(min(taken), max(taken)) for name, taken in times.items()}


def programs(commands: Mapping[str, list[str]], rounds: int = 20) -> dict[str, Time]:
    """Return the CPU seconds of each program from start to end, measured in turn *rounds* times.

    Bytecode is compiled before, as an installer does it, and lies in a folder of its own.
    """
    times: dict[str, list[float]] = {name: [] for name in commands}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as compiled:
        environment["PYTHONPYCACHEPREFIX"] = compiled
        for _ in range(rounds + 1):
            for name, command in commands.items():
                before = _children_seconds()
                subprocess.run([sys.executable, *command], check=False, capture_output=True, env=environment)
                times[name].append(_children_seconds() - before)
    # The first round has compiled.
    return {name: Time(min(taken[1:]), max(taken[1:])) for name, taken in times.items()}


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_mebibytes(command: list[str]) -> float:
    """Return the peak resident memory of a program in MiB."""
    code = (
        f"import resource, subprocess; subprocess.run({[sys.executable, *command]!r}, capture_output=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return int(done.stdout) / unit


def ratio(name: str, times: Mapping[str, Time], of: str, to: str, goal: float | None) -> Row:
    """Return the ratio of two best times beside the largest that is wanted."""
    value = times[of].best / times[to].best
    spread = f"{times[of].best * 1e3:.0f} to {times[of].worst * 1e3:.0f} ms against {times[to].best * 1e3:.0f} ms"
    figure = f"{value:.2f}x ({spread})"
    return Row(name, figure, "", None) if goal is None else Row(name, figure, f"at most {goal:g}x", value <= goal)


__all__ = ["Row", "Time", "peak_mebibytes", "programs", "ratio", "side_by_side"]
