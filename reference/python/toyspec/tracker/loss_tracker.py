"""Averages losses and other metrics over a window of steps and over the whole run."""

from __future__ import annotations

from array import array
from typing import Any

from toyspec.core.format.scalars import scalar

# Values of a device wait here to be converted; by the time this many steps have passed they have been computed.
_MAX_PENDING = 32


class LossTracker:
    """Running averages of metrics by name.

    A value of an array library is converted when an average is asked for, or some steps later, once: ``update``
    itself does not wait for a device.
    """

    __slots__ = ("_series", "window_size")

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
    """The values of one metric: a ring of the last ones, and the sum of all."""

    __slots__ = ("_count", "_pending", "_ring", "_total", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._ring = array("d")
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
            self._settle()

    def recent(self) -> list[float]:
        self._settle()
        oldest = self._count % self._window if self._count > self._window else 0
        return [*self._ring[oldest:], *self._ring[:oldest]]

    def total_average(self) -> float | None:
        self._settle()
        return self._total / self._count if self._count else None

    def _settle(self) -> None:
        pending, self._pending = self._pending, []
        for value in pending:
            number = float(scalar(value))
            if self._count < self._window:
                self._ring.append(number)
            else:
                self._ring[self._count % self._window] = number
            self._count += 1
            self._total += number


def _at_least_1(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value!r}")
    return value
