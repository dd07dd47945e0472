"""Logs a training run in three lines, to every place that its options name."""

from __future__ import annotations

import contextlib
import math
import operator
from typing import TYPE_CHECKING, Any, Self

from toyspec.core.format.scalars import is_finite, scalar
from toyspec.core.writing.clocks import Stopwatch
from toyspec.core.writing.processes import process_index
from toyspec.tracker.config import LogConfig, configured
from toyspec.tracker.models import gradients
from toyspec.tracker.sinks.console import ConsoleSink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from toyspec.tracker.formatting import Form
    from toyspec.tracker.models import Model
    from toyspec.tracker.sinks.sink import Numbering, Sink


class TrainingLogger:
    """Sends metrics to the console, a toy/v1 bundle and a metrics/v1 log; Weights & Biases mirror the bundle.

    A metric is a number, or an array of one element: it is converted once, and only on a step that some place gets.
    None leaves a metric out. A failing system never stops the training; a call that can never be right raises.
    After ``finish()``, and in all processes but the master, every call does nothing.
    """

    __slots__ = ("_log_every", "_next_step", "_period", "_sinks", "_watch", "config")

    def __init__(self, config: LogConfig | None = None, **overrides: Any) -> None:
        """Start the run of *config*, or of the defaults, with *overrides* of its options.

        Raise TypeError for an option that does not exist, ValueError for a value that it cannot have. Where JAX runs
        in several processes, initialise them before.
        """
        self.config = configured(config, overrides)
        self._watch = Stopwatch(self.config.clock)
        self._next_step = 0
        process = process_index()
        self._sinks = () if process and self.config.master_only else _open_sinks(self.config, process)
        self._period = math.gcd(*(sink.every for sink in self._sinks))
        self._log_every = self.config.log_every

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
        if number >= self._next_step:
            self._next_step = number + 1
        elif number < self._next_step - 1:
            self._go_back(number)
        # All is over for most steps here: a period of 0 means that no place takes steps.
        if not self._period or number % self._period:
            return
        due = [sink for sink in self._sinks if sink.every and not number % sink.every]
        if due:
            converted = _converted(metrics)
            numbering: Numbering = "counted" if step is None else "given"
            for sink in due:
                sink.log_step(number, converted, numbering)

    def log_validation(self, /, step: int | None = None, **metrics: Any) -> None:
        """Log the result of an evaluation, for example ``val_loss=1.2, val_perplexity=3.32``, made after *step*."""
        if self._sinks:
            converted, number = _converted(metrics), self._last_step(step)
            for sink in self._sinks:
                sink.log_validation(number, converted)

    def log_system(self, /, step: int | None = None, **metrics: Any) -> None:
        """Log the state of the machine; the memory of the device is added where JAX or PyTorch can tell it."""
        if self._sinks:
            converted, number = _converted(metrics), self._last_step(step)
            for sink in self._sinks:
                sink.log_system(number, converted)

    def log_gradients(self, model: Model, step: int | None = None) -> None:
        """Log statistics and a histogram of 32 bins of each gradient, when ``enable_histograms`` is set.

        *model* is a module whose parameters have a ``grad``, or a pytree of gradients. They are taken on the steps of
        ``log_every`` alone, since each of them leaves the device whole.
        """
        number = self._last_step(step)
        if not (self._sinks and self.config.enable_histograms and self._log_every) or number is None:
            return
        if number % self._log_every:
            return
        from toyspec.tracker.histograms import gradient_statistics

        for name, gradient in gradients(model):
            statistics = gradient_statistics(gradient)
            for sink in self._sinks:
                sink.log_gradient(number, name, statistics)

    @contextlib.contextmanager
    def log_section(self, section_name: str) -> Iterator[None]:
        """Show where a section of the training begins and ends; in the bundle it is a region. Sections nest."""
        for sink in self._sinks:
            sink.enter_section(section_name)
        start = self._watch.seconds()
        try:
            yield
        finally:
            for sink in self._sinks:
                sink.exit_section(section_name, self._watch.seconds() - start)

    def finish(self) -> None:
        """End the run; done at the exit of the program where it is not called. Nothing is logged after."""
        self._finish(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the run: as completed, or as interrupted or errored by the exception, which goes on."""
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        sinks, self._sinks, self._period = self._sinks, (), 0
        for sink in sinks:
            sink.finish(error)

    def _go_back(self, step: int) -> None:
        self._next_step = step + 1
        for sink in self._sinks:
            sink.go_back(step)

    def _last_step(self, step: int | None) -> int | None:
        """Return *step*, else the last step, None before the first."""
        if step is not None:
            return operator.index(step)
        return self._next_step - 1 if self._next_step else None


def _open_sinks(config: LogConfig, process: int) -> tuple[Sink, ...]:
    # Each place is imported only where it is used: the bundle comes first, because it must have what others show.
    sinks: list[Sink] = []
    if config.runs_root is not None:
        from toyspec.tracker.sinks.bundle import BundleSink

        sinks.append(BundleSink(config, process=process))
    if config.metrics_log is not None:
        from toyspec.tracker.sinks.throughput_log import ThroughputLogSink

        sinks.append(ThroughputLogSink(config, process=process))
    form: Form = "compact" if config.compact_format else "standard"
    sinks.append(ConsoleSink(every=config.print_every, form=form, use_colors=config.use_colors, clock=config.clock))
    return tuple(sinks)


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
