"""Which metrics measure time or the machine, and which settings are seeds: they differ between runs of one program."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEASURED = re.compile(
    r"(?:^|/)(?:system|op_timing|timing|perf|throughput)/"
    r"|(?:^|[/_.])(?:time|times|runtime|duration|elapsed|throughput|mfu|tps|fps)(?:$|[/_.])"
    r"|_(?:ns|us|ms|s|sec|secs|seconds|minutes|hours|bytes|mb|gb|mib|gib|watts|celsius)$"
    r"|_per_(?:s|sec|second|gpu|device)$|_per_(?:s|sec|second)_"
    r"|(?:^|[/_.])(?:(?:gpu|cpu|memory|mem|vram)_)",
    re.IGNORECASE,
)
"""The unit of a measurement is at the end of its name."""

_SEEDS = frozenset(
    ["seed", "random_seed", "rng_seed", "data_seed", "torch_seed", "numpy_seed", "b_seed", "random_state"]
)


def is_seed(name: str) -> bool:
    """Return whether the setting *name* is a seed of random numbers."""
    return name.rpartition(".")[2].lower() in _SEEDS


def is_compared(name: str, globs: Sequence[str] = ()) -> bool:
    """Return whether the metric *name* matches one of *globs*; without one, whether it is about the training."""
    if globs:
        return any(fnmatchcase(name, each) for each in globs)
    return _MEASURED.search(name) is None
