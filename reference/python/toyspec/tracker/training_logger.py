"""Logs a training run in three lines, to every place that its options name."""

from __future__ import annotations

import contextlib
import math
import operator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self, get_args

from toyspec.convert.mirrors.settings import Mirror, Selecting
from toyspec.core.errors import check_choice, nearest
from toyspec.core.format.scalars import is_finite, scalar
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock, Stopwatch
from toyspec.core.writing.environment import ALONE, this_backend, this_process
from toyspec.core.writing.logged_values import event_members
from toyspec.core.writing.run_ids import run_id_from
from toyspec.core.writing.run_starting import start_run
from toyspec.core.writing.settings import Exist
from toyspec.tracker.compute import device_memory, gradient_statistics, gradients
from toyspec.tracker.formatting import MetricsConsole

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from toyspec.core.writing.run_writer import RunWriter
    from toyspec.tracker.compute import Model
    from toyspec.tracker.formatting import Form


_PERIODS = ("log_every", "print_every", "record_every")
_EVALUATION = "validation"


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
    """Steps between two that go to the bundle; above 1 it is written as config.subsample."""
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
            near = nearest(name, known)
            hint = f"; did you mean {near}?" if near else ""
            raise TypeError(f"TrainingLogger has no option {name!r}{hint}")
    if config is not None and not isinstance(config, LogConfig):
        raise TypeError(f"config must be a LogConfig, got {type(config).__name__}")
    return replace(config or LogConfig(), **overrides)


class TrainingLogger:
    """Sends metrics to the console and a toy/v1 bundle, which Weights & Biases mirror.

    A metric is a number, or an array of one element: it is converted once, and only on a step that some place gets.
    None leaves a metric out. A failing system never stops the training; a call that can never be right raises.
    After ``finish()``, and in all processes but the master, every call does nothing.
    """

    def __init__(self, config: LogConfig | None = None, **overrides: Any) -> None:
        """Start the run of *config*, or of the defaults, with *overrides* of its options.

        Raise TypeError for an option that does not exist, ValueError for a value that it cannot have. Where JAX runs
        in several processes, initialise them before.
        """
        self.config = config = configured(config, overrides)
        self._watch = Stopwatch(config.clock)
        self._next_step = 0
        self._sections: list[str] = []
        self._run: RunWriter | None = None
        self._console: MetricsConsole | None = None
        process = this_process().rank
        if process and config.master_only:
            return
        # The run comes first, because it must have what others show.
        if config.runs_root is not None:
            self._run = _start(config, process)
        form: Form = "compact" if config.compact_format else "standard"
        self._console = MetricsConsole(form, use_colors=config.use_colors)

    def log_step(self, /, step: int | None = None, **metrics: Any) -> None:
        """Log the *metrics* of one step, for example ``loss=1.5, lr=3e-4``.

        Without *step* the number is one more than the last, from 0. A smaller step than the last means that the
        training has gone back. Raise ValueError for a negative step, TypeError for a step that is not an integer or a
        metric that is not a number.
        """
        number = self._next_step if step is None else step
        if type(number) is not int:
            number = int(operator.index(number))
        if number < 0:
            raise ValueError(f"step is {number}; it must not be negative")
        if number < self._next_step - 1:
            self._go_back(number)
        elif number >= self._next_step:
            self._next_step = number + 1
        console, config = self._console, self.config
        if console is None:
            return
        run = self._run if _is_due(number, config.record_every) else None
        is_printed = _is_due(number, config.print_every)
        # All is over for most steps here.
        if run is None and not is_printed:
            return
        converted = _converted(metrics)
        if run is not None:
            # A step whose extra is sorted is written without a detour.
            run.step(number, **event_members("step", dict(sorted(converted.items()))))
        if is_printed:
            console.print_metrics(self._watch.seconds(), converted, step=step)

    def log_validation(self, /, step: int | None = None, **metrics: Any) -> None:
        """Log the result of an evaluation, for example ``val_loss=1.2, val_perplexity=3.32``, made after *step*."""
        if self._console is None:
            return
        converted = _converted(metrics)
        if self._run is not None:
            self._run.eval(_EVALUATION, step=self._last_step(step), **event_members("eval", converted))
        self._console.print_metrics(self._watch.seconds(), converted, is_validation=True)

    def log_system(self, /, step: int | None = None, **metrics: Any) -> None:
        """Log the state of the machine; the memory of the device is added where JAX or PyTorch can tell it."""
        if self._run is None:
            return
        members = event_members("system", _converted(metrics))
        memory = device_memory()
        if memory is not None and not members.keys() & {"memory_used_bytes", "memory_limit_bytes"}:
            members |= {"memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit}
        self._run.system(step=self._last_step(step), **members)

    def log_gradients(self, model: Model, step: int | None = None) -> None:
        """Log statistics and a histogram of 32 bins of each gradient, when ``enable_histograms`` is set.

        *model* is a module whose parameters have a ``grad``, or a pytree of gradients. They are taken on the steps of
        ``log_every`` alone, since each of them leaves the device whole.
        """
        number = self._last_step(step)
        if self._run is None or not self.config.enable_histograms or number is None:
            return
        if _is_due(number, self.config.log_every):
            for name, gradient in gradients(model):
                self._run.grad(name, step=number, **gradient_statistics(gradient))

    @contextlib.contextmanager
    def log_section(self, section_name: str) -> Iterator[None]:
        """Show where a section of the training begins and ends; in the bundle it is a region. Sections nest."""
        self._sections.append(section_name)
        if self._run is not None:
            self._run.region_enter(section_name)
        if self._console is not None:
            self._console.print_heading(section_name)
        start = self._watch.seconds()
        try:
            yield
        finally:
            if self._run is not None and self._sections[-1:] == [section_name]:
                self._sections.pop()
                self._run.region_exit(section_name)
            if self._console is not None:
                self._console.print_duration(section_name, self._watch.seconds() - start)

    def finish(self) -> None:
        """End the run; done at the exit of the program where it is not called. Nothing is logged after."""
        self._finish(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: object, error: BaseException | None, traceback: object) -> None:
        """End the run: as completed, or as interrupted or errored by the exception, which goes on."""
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        run, self._run, self._console = self._run, None, None
        if run is not None:
            for name in reversed(self._sections):
                run.region_exit(name)
            run.close(error)

    def _go_back(self, step: int) -> None:
        """Write a run_resume, as after the return to a checkpoint, unless the run has no later step than *step*."""
        self._next_step = step + 1
        last = None if self._run is None else self._run.last_step
        if self._run is not None and last is not None and step <= last:
            self._run.run_resume(max(step - 1, 0))

    def _last_step(self, step: int | None) -> int | None:
        """Return *step*, else the last step, None before the first."""
        if step is not None:
            return operator.index(step)
        return self._next_step - 1 if self._next_step else None


def _is_due(step: int, every: int) -> bool:
    return bool(every) and not step % every


def _start(config: LogConfig, process: int) -> RunWriter:
    """Return the run of *config*; only with ``exist="fail"`` may an earlier run raise FileExistsError."""
    suffix = f"-process{process}" if process else ""
    facts: dict[str, Any] = {} if config.project is None else {"project": config.project}
    if config.record_every > 1:
        facts["subsample"] = config.record_every
    mirrors = []
    if config.project is not None:
        prefixes = {"step": "train/", "eval": "val/"}
        select = Selecting(every=config.log_every, megabytes=config.max_wandb_mb, prefixes=prefixes)
        mirrors = [Mirror(to="wandb", project=config.project, select=select)]
    members: dict[str, Any] = {} if config.git is None else {"git": config.git}
    return start_run(
        config.runs_root or "",
        run_id=None if config.run_name is None else run_id_from(config.run_name) + suffix,
        model=config.model,
        config={**facts, **config.hyperparameters},
        backend=this_backend() if config.backend is None else config.backend,
        host=config.host,
        compare_to=config.compare_to,
        name=config.run_name,
        tags=list(config.tags) or None,
        notes=config.notes,
        exist=config.exist,
        companions=mirrors,
        process=ALONE,
        clock=config.clock,
        **members,
    )


def _converted(metrics: dict[str, Any]) -> dict[str, float]:
    """Return *metrics* as floats and integers, each converted once, without those that are None."""
    for value in metrics.values():
        if type(value) is not float:
            break
    else:
        # Most training loops give floats alone, and this is on their way.
        return metrics
    converted: dict[str, float] = {}
    for name, value in metrics.items():
        if type(value) is float:
            converted[name] = value
        elif value is not None:
            number = _number(name, value)
            if number is not None:
                converted[name] = number
    return converted


def _number(name: str, value: Any) -> float | None:
    try:
        number = scalar(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"metric {name!r} must be a number or an array of one element: {error}") from error
    if type(number) is int and not is_finite(number):
        return math.inf if number > 0 else -math.inf
    if isinstance(number, bool):
        return int(number)
    if number is None or isinstance(number, int | float):
        return number
    raise TypeError(f"metric {name!r} must be a number or an array of one element, got {type(value).__name__}")
