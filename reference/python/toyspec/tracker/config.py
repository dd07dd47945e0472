"""The options of a ``TrainingLogger``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from toyspec.core.errors import check_choice
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from toyspec.tracker.metrics_tracker import MetricsTracker

Exist = Literal["replace", "fail", "resume"]

_PERIODS = ("log_every", "print_every", "record_every")


@dataclass(slots=True)
class LogConfig:
    """What is logged, how often and where to; a period counts steps, and 0 means never."""

    project: str | None = None
    """Project in Weights & Biases, where the bundle is mirrored; None sends nothing there."""
    run_name: str | None = None
    """Name of the run; also its run id, with ``-`` for what a directory's name may not hold."""
    tags: Sequence[str] = field(default_factory=list)
    notes: str | None = None
    log_every: int = 50
    """Steps between two that go to Weights & Biases."""
    print_every: int = 25
    """Steps between two that go to the console."""
    max_wandb_mb: float = 100.0
    """Most that is sent to Weights & Biases in a run, in megabytes of 1,000,000 bytes of JSON."""
    enable_histograms: bool = False
    """Whether ``log_gradients`` writes statistics and histograms; it does on the steps of log_every."""
    use_colors: bool = True
    """Whether a terminal gets colours; nothing else ever does, nor a terminal where NO_COLOR is set."""
    compact_format: bool = False
    master_only: bool = True
    """Whether only the first of several processes logs; else each writes its own bundle."""

    runs_root: str | os.PathLike[str] | None = field(default="runs", kw_only=True)
    """Folder that gets the bundle, in a folder named for the run; None writes no bundle."""
    record_every: int = field(default=1, kw_only=True)
    """Steps between two that go to the bundle and the metrics log; above 1 it is written as config.subsample."""
    metrics_log: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    """Path of a metrics/v1 log to append to; None writes none."""
    exist: Exist = field(default="replace", kw_only=True)
    """What happens to the stream of an earlier run of this name."""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Settings of the run: run_start.config, and the config of the run in Weights & Biases."""
    model: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """run_start.model; it must have ``arch``."""
    host: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """run_start.host; None means this machine."""
    backend: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """run_start.backend; None means the device that JAX or PyTorch use, else the processor."""
    git: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """run_start.git, with ``sha``."""
    compare_to: str | None = field(default=None, kw_only=True)
    """Run id of a baseline."""
    tracker: MetricsTracker | None = field(default=None, kw_only=True)
    """Where the metrics log gets the samples per second from, when a step does not tell them."""
    clock: Clock = field(default=SYSTEM_CLOCK, kw_only=True)

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for an option that cannot be."""
        for name in _PERIODS:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} is {value!r}; it must be a number of steps, or 0 for never")
        if not self.max_wandb_mb >= 0:
            raise ValueError(f"max_wandb_mb is {self.max_wandb_mb!r}; it must not be negative")
        check_choice("exist", self.exist, get_args(Exist))
        if self.runs_root is not None and self.record_every == 0:
            raise ValueError("record_every is 0, but a bundle records steps; runs_root=None writes no bundle")
        if self.project is not None and self.runs_root is None:
            raise ValueError(
                f"project is {self.project!r} and runs_root is None; W&B mirrors the bundle, so give runs_root"
            )
        if not isinstance(self.tags, list | tuple):
            raise TypeError(f"tags is {self.tags!r}; it must be a list of strings")


def configured(config: LogConfig | None, overrides: Mapping[str, Any]) -> LogConfig:
    """Return a copy of *config* with *overrides*; raise TypeError for an unknown option, ValueError for a wrong one."""
    known = [option.name for option in fields(LogConfig)]
    for name in overrides:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"TrainingLogger has no option {name!r}{hint}")
    if config is not None and not isinstance(config, LogConfig):
        raise TypeError(f"config must be a LogConfig, got {type(config).__name__}")
    return replace(config or LogConfig(), **overrides)
