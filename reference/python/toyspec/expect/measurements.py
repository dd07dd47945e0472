"""Which metrics measure time or the machine, and which settings are seeds: they differ between runs of one program."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

_RATE = re.compile(
    r"(?:^|[/_.])(?:throughput|mfu|tps|fps)(?:$|[/_.])|_per_(?:s|sec|second|gpu|device)(?:$|_)", re.IGNORECASE
)
_COST = re.compile(
    r"^@|(?:^|[/_.])(?:time|times|runtime|duration|elapsed)(?:$|[/_.])"
    r"|_(?:ns|us|ms|s|sec|secs|seconds|minutes|hours|bytes|mb|gb|mib|gib)$",
    re.IGNORECASE,
)
"""The unit of a measurement is at the end of its name."""
_MACHINE = re.compile(
    r"(?:^|/)(?:system|op_timing|timing|perf|throughput)/|_(?:watts|celsius)$"
    r"|(?:^|[/_.])(?:gpu|cpu|memory|mem|vram)_",
    re.IGNORECASE,
)

_SEED = re.compile(r"(?:^|_)seed$|^random_state$", re.IGNORECASE)


def is_seed(name: str) -> bool:
    """Return whether the setting *name* is a seed of random numbers."""
    return _SEED.search(name.rpartition(".")[2]) is not None


def cost_goal(name: str) -> Literal["min", "max"] | None:
    """Return which values of a time, a size or a rate are better; None for other metrics."""
    return "max" if _RATE.search(name) else "min" if _COST.search(name) else None


def is_compared(name: str, globs: Sequence[str] = (), *, costs: bool = False) -> bool:
    """Return whether the metric *name* matches one of *globs*; without one, whether it is about the training.

    With *costs* it is instead whether it is a time, a size or a rate, which is not a sample of the machine.
    """
    if globs:
        return any(fnmatchcase(name, each) for each in globs)
    is_cost = cost_goal(name) is not None
    return is_cost and not name.startswith("system/") if costs else not is_cost and not _MACHINE.search(name)
