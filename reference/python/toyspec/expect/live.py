"""What a run is expected to log, while it is written: each window is compared once it is over."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from toyspec.expect.bands import departure

if TYPE_CHECKING:
    from toyspec.expect.bands import Band, MetricBands


class ExpectedSeries:
    """The values of one metric and the windows that they are in, around *series*, which takes in the same values.

    Medians are left to ``toyspec expect check``, as are windows that began before the first value or a resumption.
    """

    def __init__(self, name: str, metric: MetricBands, series: Any, incident: Any, rank: int | None) -> None:
        self._name, self._series, self._incident, self._rank = name, series, incident, rank
        bands = metric.bands if metric.of == "mean" else []
        self._bands = sorted(bands, key=lambda band: (-band.first, band.last))
        self.rewind(0)

    def rewind(self, step: float) -> None:
        """Forget the values after *step*: the run goes on from there."""
        self._series.rewind(step)
        self._later: list[Band] | None = None
        self._open: dict[Band, list[float]] = {}

    def take(self, value: float | None, step: float) -> list[Any]:
        """Take in a value; return the alerts, of the longest window that leaves its band."""
        found = list(self._series.take(value, step))
        if self._later is None:
            self._later = [band for band in self._bands if band.first >= step]
        while self._later and self._later[-1].first <= step:
            self._open[self._later.pop()] = []
        number = nan if value is None else value
        place = {"step": step, "rank": self._rank}
        left = over = None
        for band, sums in list(self._open.items()):
            count, total = sums or (0, 0.0)
            if step <= band.last:
                self._open[band] = [count := count + 1, total := total + number]
            if step > band.last or (step == band.last and count >= band.count):
                over = self._open.pop(band)
                left = left or departure(self._name, band, int(count), total / (count or 1))
        if left and step >= self._incident.rule.after_step:
            found += self._incident.begin(left.sentence, number, **place)
        elif over and not left:
            found += self._incident.end(f"{self._name} is as expected again", number, **place)
        return found
