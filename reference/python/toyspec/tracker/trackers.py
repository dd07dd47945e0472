"""Running figures of a training loop: losses averaged over a window and the whole run, and how fast it runs."""

from __future__ import annotations

import time
from array import array
from typing import TYPE_CHECKING, Any

from toyspec.core.format.scalars import scalar
from toyspec.tracker.compute import (
    compute_mfu,
    compute_model_flops_per_token,
    compute_throughput,
    compute_tokens_in_batch,
    peak_flops,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from toyspec.tracker.compute import Model

# Values of a device wait here to be converted; by the time this many steps have passed they have been computed.
_MAX_PENDING = 32


class LossTracker:
    """Running averages of metrics by name.

    A value of an array library is converted when an average is asked for, or some steps later, once: ``update``
    itself does not wait for a device.
    """

    def __init__(self, window_size: int = 100) -> None:
        """Keep the last *window_size* values of each metric; raise ValueError unless it is at least 1."""
        self.window_size = _at_least_1("window_size", window_size)
        self._series: dict[str, _Series] = {}

    def update(self, **metrics: Any) -> None:
        """Add one value to each metric; raise TypeError for anything but a number."""
        for name, value in metrics.items():
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = _Series(self.window_size)
            series.add(name, value)

    def get_average(self, name: str, window: int | None = None) -> float | None:
        """Return the mean of the last *window* values that are kept, of all kept by default; None without a value."""
        values = self._recent(name)
        if window is not None:
            values = values[-_at_least_1("window", window) :]
        return sum(values) / len(values) if values else None

    def get_total_average(self, name: str) -> float | None:
        """Return the mean of all values since the last reset, also of those no longer kept; None without a value."""
        series = self._series.get(name)
        return None if series is None else series.total_average()

    def get_recent(self, name: str, n: int = 1) -> float | list[float] | None:
        """Return the last value for *n* = 1, else a list of the last *n* kept, oldest first; None without a value."""
        values = self._recent(name)
        if not values:
            return None
        return values[-1] if n == 1 else values[-_at_least_1("n", n) :]

    def reset(self, name: str | None = None, *, metric_name: str | None = None) -> None:
        """Forget the metric *name*, or all of them; *metric_name* is another name of the same argument."""
        name = metric_name if name is None else name
        if name is None:
            self._series.clear()
        else:
            self._series.pop(name, None)

    def as_dict(self, include_totals: bool = True) -> dict[str, float]:
        """Return ``<name>_avg`` and ``<name>_total_avg`` of every metric."""
        found = {}
        for name in self._series:
            averages = {f"{name}_avg": self.get_average(name)}
            if include_totals:
                averages[f"{name}_total_avg"] = self.get_total_average(name)
            found.update({key: value for key, value in averages.items() if value is not None})
        return found

    @property
    def tracked_metrics(self) -> list[str]:
        """Names of the metrics, in the order in which they first came."""
        return list(self._series)

    def _recent(self, name: str) -> list[float]:
        series = self._series.get(name)
        return [] if series is None else series.recent()


class _Series:
    """The values of one metric: the last ones, and the sum of all."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._last = array("d")
        self._total = 0.0
        self._count = 0
        self._pending: list[Any] = []

    def add(self, name: str, value: Any) -> None:
        if type(value) is not float:
            if isinstance(value, str) or not (hasattr(value, "item") or hasattr(value, "__float__")):
                raise TypeError(f"metric {name!r} must be a number, got {type(value).__name__}")
            detach = getattr(value, "detach", None)
            # A value that waits must not keep the graph alive that computed it.
            value = detach() if callable(detach) else value
        self._pending.append(value)
        if len(self._pending) >= _MAX_PENDING:
            self.recent()

    def recent(self) -> list[float]:
        pending, self._pending = self._pending, []
        for value in pending:
            number = float(scalar(value))
            self._last.append(number)
            self._count += 1
            self._total += number
        del self._last[: -self._window]
        return self._last.tolist()

    def total_average(self) -> float | None:
        self.recent()
        return self._total / self._count if self._count else None


def _at_least_1(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value!r}")
    return value


class MetricsTracker:
    """Throughput and utilisation of a run, since its start and since the last ``reset_interval()``.

    Nothing here touches an array after the first look at the model, so that no property waits for a device.
    """

    def __init__(  # noqa: PLR0913 - four of them are the call shape that this class keeps
        self,
        model: Model,
        sequence_length: int,
        world_size: int = 1,
        theoretical_peak_flops: float | str | None = None,
        *,
        flops_per_token: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count for *world_size* devices that train on sequences of *sequence_length* tokens.

        *theoretical_peak_flops* is per second, of all devices together; the name of an accelerator means its peak
        times *world_size*; None leaves the utilisation out. *flops_per_token* replaces the count that is made of the
        model at its first use, with the attention term where ``model.config`` tells depth and width. *clock* returns
        seconds. Raise ValueError for a length, size or peak that is not positive, LookupError for an unknown name.
        """
        for name, value in (("sequence_length", sequence_length), ("world_size", world_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        if isinstance(theoretical_peak_flops, str):
            theoretical_peak_flops = peak_flops(theoretical_peak_flops) * world_size
        if theoretical_peak_flops is not None and not theoretical_peak_flops > 0:
            raise ValueError(f"theoretical_peak_flops must be above 0, got {theoretical_peak_flops!r}")
        self.model = model
        self.sequence_length = sequence_length
        self.world_size = world_size
        self.theoretical_peak_flops = theoretical_peak_flops
        self.steps = 0
        """Number of optimizer steps."""
        self.tokens = 0
        """Number of tokens that all devices have seen."""
        self.start_time = time.time()
        """Seconds since the Unix epoch at the start, UTC."""
        self._clock = clock
        self._flops_per_token = flops_per_token
        self._start = self._interval_start = clock()
        self._interval_tokens = 0

    def update(self, local_batch_size: int) -> None:
        """Count one optimizer step of *local_batch_size* sequences per device, before accumulation."""
        self.steps += 1
        self.tokens += compute_tokens_in_batch(local_batch_size * self.world_size, self.sequence_length)

    def reset_interval(self) -> None:
        """Let what is recent begin now."""
        self._interval_start = self._clock()
        self._interval_tokens = self.tokens

    @property
    def elapsed(self) -> float:
        """Seconds since the tracker was made."""
        return self._clock() - self._start

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all devices per second since the start."""
        return compute_throughput(self.tokens, self.elapsed)

    @property
    def recent_tokens_per_second(self) -> float:
        """Tokens of all devices per second since the last ``reset_interval()``."""
        return compute_throughput(self.tokens - self._interval_tokens, self._clock() - self._interval_start)

    @property
    def flops_per_token(self) -> float:
        """Floating-point operations per token; counted once, so that parameters frozen later still count."""
        if self._flops_per_token is None:
            self._flops_per_token = compute_model_flops_per_token(self.model, sequence_length=self.sequence_length)
        return self._flops_per_token

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation since the start, 0 to 1; None without a peak."""
        return self._utilisation(self.tokens_per_second)

    @property
    def recent_mfu(self) -> float | None:
        """Model FLOPs utilisation since the last ``reset_interval()``, 0 to 1; None without a peak."""
        return self._utilisation(self.recent_tokens_per_second)

    def as_dict(self, include_recent: bool = True) -> dict[str, float | None]:
        """Return what the properties say by name; the utilisation only with a peak."""
        found: dict[str, float | None] = {
            "steps": self.steps,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second,
            "elapsed_seconds": self.elapsed,
        }
        if include_recent:
            found["recent_tokens_per_second"] = self.recent_tokens_per_second
        if self.theoretical_peak_flops is not None:
            found["mfu"] = self.mfu
            if include_recent:
                found["recent_mfu"] = self.recent_mfu
        return found

    def _utilisation(self, tokens_per_second: float) -> float | None:
        if self.theoretical_peak_flops is None:
            return None
        return compute_mfu(
            self.model, tokens_per_second, self.theoretical_peak_flops, flops_per_token=self.flops_per_token
        )

    def __str__(self) -> str:
        mfu = self.mfu
        shown = f"steps={self.steps:,}, tokens={self.tokens:,}, tok/s={self.tokens_per_second:,.2f}"
        return shown if mfu is None else f"{shown}, MFU={mfu:.2%}"
