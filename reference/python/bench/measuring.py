"""Measures functions in alternating rounds, so that other load on the machine affects all of them equally."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Sense = Literal["most", "least"]
"""Whether a goal is the largest figure that is wanted, or the smallest."""

Clock = Literal["process", "thread", "elapsed"]
"""CPU time of all threads, or of the one that calls; elapsed time, in which others take part, for threads."""


class Row(NamedTuple):
    """One figure beside its goal."""

    group: str
    name: str
    unit: str
    """What the figure counts; ``x`` for a ratio, ``missing`` where there is no figure."""
    median: float
    low: float
    high: float
    goal: float | None
    """None where there is none."""
    sense: Sense
    detail: str
    """A note on the figure: the two sides of a ratio, or what is missing and where to get it."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met by the median; None where there is no goal or no figure."""
        if self.goal is None or self.unit == "missing":
            return None
        return self.median <= self.goal if self.sense == "most" else self.median >= self.goal

    @property
    def figure(self) -> str:
        """The median, and the span of all rounds where there is one."""
        if self.unit == "missing":
            return "missing"
        unit = self.unit if self.unit == "x" else f" {self.unit}"
        span = f" ({_short(self.low)} to {_short(self.high)})" if self.low != self.high else ""
        return f"{_short(self.median)}{unit}{span}"

    @property
    def goal_text(self) -> str:
        """The goal in words; empty where there is none."""
        if self.goal is None:
            return ""
        unit = self.unit if self.unit in ("x", "missing") else f" {self.unit}"
        return f"at {self.sense} {self.goal:,g}{unit.replace('missing', '')}"


def alternating(
    functions: Mapping[str, Callable[[], object]], rounds: int = 5, clock: Clock = "process"
) -> dict[str, list[float]]:
    """Return the seconds of each function in each round by *clock*; a round calls each once, in turn."""
    now = {"process": time.process_time, "thread": time.thread_time, "elapsed": time.perf_counter}[clock]
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = now()
            function()
            times[name].append(now() - start)
    return times


def programs(commands: Mapping[str, Sequence[str]], rounds: int = 15) -> dict[str, list[float]]:
    """Return the CPU seconds of each program from start to end in each round.

    Bytecode is compiled before, as an installer does it, and lies in a folder of its own.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as compiled:
        environment["PYTHONPYCACHEPREFIX"] = compiled
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds + 1):
            for name, command in commands.items():
                before = _children_seconds()
                subprocess.run(command, check=False, capture_output=True, env=environment)
                times[name].append(_children_seconds() - before)
    # The first round has compiled, and filled the cache of the file system.
    return {name: taken[1:] for name, taken in times.items()}


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


def ratio(group: str, name: str, of: Sequence[float], to: Sequence[float], **goal: Any) -> Row:
    """Return how many times *of* is *to*, round by round; *goal* is ``most`` or ``least``."""
    values = [one / other for one, other in zip(of, to, strict=True)]
    detail = f"{_seconds(median(of))} against {_seconds(median(to))}"
    return spread(group, name, "x", values, detail=detail, **goal)


def spread(group: str, name: str, unit: str, values: Sequence[float], *, detail: str = "", **goal: Any) -> Row:
    """Return the median of *values* and what they lie between; *goal* is ``most`` or ``least``."""
    sense: Sense = "least" if "least" in goal else "most"
    return Row(group, name, unit, median(values), min(values), max(values), goal.get(sense), sense, detail)


def single(group: str, name: str, unit: str, value: float, **options: Any) -> Row:
    """Return a figure that does not depend on chance."""
    return spread(group, name, unit, [value], **options)


def missing(group: str, name: str, why: str, **goal: Any) -> Row:
    """Return the row of a figure that cannot be taken here, because of *why*."""
    return spread(group, name, "missing", [0.0], detail=why, **goal)


def browser_of(group: str) -> str | Row:
    """Return the browser that figures of *group* are taken in, else the row that says why there is none."""
    try:
        import playwright.sync_api  # noqa: F401

        from browser.serving import browser_program
    except ImportError:
        return missing(group, "all figures in a browser", "no module playwright")
    return browser_program() or missing(group, "all figures in a browser", "no chromium (apt install chromium)")


def per_call(times: Sequence[float], calls: int) -> list[float]:
    """Return microseconds per call."""
    return [seconds / calls * 1e6 for seconds in times]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} us"


__all__ = ["Row", "alternating", "missing", "peak_mebibytes", "per_call", "programs", "ratio", "single", "spread"]
