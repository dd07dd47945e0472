"""Describes a gradient: norms, extremes and a histogram. Needs NumPy, which every library of arrays brings along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

BINS = 32
"""Number of counts of every histogram."""

_NEAR_ZERO = 1e-6


class GradientStatistics(msgspec.Struct, frozen=True):
    """The statistics of one gradient in a ``grad`` event."""

    shape: tuple[int, ...]
    l2: float | None
    """Euclidean norm; None as soon as one element is not finite, as for mean and abs_mean."""
    min: float | None
    """Smallest finite element; None when there is none."""
    max: float | None
    """Largest finite element; None when there is none."""
    mean: float | None
    abs_mean: float | None
    sparsity: float | None
    """Fraction of all elements with an absolute value below 1e-6; None for a gradient without elements."""
    nan_count: int
    histogram: tuple[int, ...]
    """Counts of the finite elements in 32 bins of equal width that span min to max."""

    def edges(self) -> list[float]:
        """Return the 33 borders of the bins; raise ValueError when there is no finite element."""
        if self.min is None or self.max is None:
            raise ValueError("there is no finite element")
        width = (self.max - self.min) / BINS
        return [self.min + width * index for index in range(BINS)] + [self.max]


def gradient_statistics(gradient: Any) -> GradientStatistics:
    """Return the statistics of an array of any library; it leaves its device once, and is computed in float64."""
    import numpy as np

    values = _on_host(gradient)
    finite = values[np.isfinite(values)]
    magnitudes = np.abs(values)
    whole = values.size > 0 and finite.size == values.size
    return GradientStatistics(
        shape=tuple(int(extent) for extent in values.shape),
        l2=_measure(lambda: np.linalg.norm(values.ravel())) if whole else None,
        min=float(finite.min()) if finite.size else None,
        max=float(finite.max()) if finite.size else None,
        mean=_measure(values.mean) if whole else None,
        abs_mean=_measure(magnitudes.mean) if whole else None,
        sparsity=float((magnitudes < _NEAR_ZERO).mean()) if values.size else None,
        nan_count=int(np.isnan(values).sum()),
        histogram=tuple(int(count) for count in _counts(finite)) if finite.size else (0,) * BINS,
    )


def _measure(measured: Callable[[], Any]) -> float:
    """Return what *measured* gives; an infinity, which is written as null, where it is beyond binary64."""
    import numpy as np

    with np.errstate(over="ignore"):
        return float(measured())


def _counts(finite: Any) -> Any:
    """Return how many elements lie in each bin; the last one has its upper border too, and all that are equal."""
    import numpy as np

    low, high = finite.min(), finite.max()
    # Halves first: the span of two large gradients of opposite sign may exceed binary64.
    span = high / 2 - low / 2
    if span == 0.0:
        return np.bincount([BINS - 1], weights=[finite.size], minlength=BINS)
    places = (finite / 2 - low / 2) / span * BINS
    return np.bincount(np.minimum(places.astype(np.int64), BINS - 1).ravel(), minlength=BINS)


def _on_host(gradient: Any) -> Any:
    """Return *gradient* as a NumPy array of binary64."""
    import numpy as np

    detach = getattr(gradient, "detach", None)
    if callable(detach):
        # NumPy knows no bfloat16, so PyTorch widens it first.
        gradient = detach().double().cpu().numpy()
    return np.asarray(gradient).astype(np.float64)
