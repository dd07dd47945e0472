"""The curves of a run whose stream is being read, with the interface of those that are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading

    from toyspec.view.buckets import Buckets
    from toyspec.view.scanned_runs import ScannedRun


class LiveCurves:
    """The curves in memory; *lock* keeps others from reading the stream meanwhile."""

    def __init__(self, file: ScannedRun, lock: threading.Lock) -> None:
        self._scan = file.scan
        self._lock = lock
        self.identity = file.identity()
        self.gaps: list[dict[str, Any]] = self._scan.gaps
        self.resumes: list[dict[str, Any]] = self._scan.resumes
        self.alerts: list[dict[str, Any]] = self._scan.alerts
        self.attempts = self._scan.summary.attempts
        self.profile = self._scan.summary.profile

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics."""
        return list(self._scan.latest)

    @property
    def best(self) -> dict[str, tuple[int, float]]:
        """Step and value of the best point of each metric that has a goal."""
        summary = self._scan.summary
        found = {name: summary.best(name) for name in list(summary.series)}
        return {name: pair for name, pair in found.items() if pair is not None}

    def latest(self, name: str, most: int | None = None) -> Buckets | None:  # noqa: ARG002 - the stored ones use it
        """Return the curve of a metric as the latest attempt made it; None if the run does not have it."""
        with self._lock:
            curve = self._scan.latest.get(name)
            return None if curve is None else curve.buckets().copy()

    def first(self, name: str) -> tuple[float, float, float] | None:
        """Return step, time and epoch of the first point of a metric, NaN where unknown; None without the metric."""
        with self._lock:
            curve = self._scan.latest.get(name)
            return None if curve is None else curve.first_places

    def abandoned(self, name: str) -> list[Buckets]:
        """Return what later attempts did again, a curve for each stretch."""
        with self._lock:
            return [stretch[name].buckets().copy() for stretch in self._scan.abandoned if name in stretch]
