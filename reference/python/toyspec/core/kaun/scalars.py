"""Which scalar of a tag is the latest and which values are better: see spec/views.md#kaunv1."""

from __future__ import annotations

from toyspec.core.format.record_mapping import cut_count
from toyspec.core.generated.runs import KAUN_SMALLER_IS_BETTER


def lateness(step: int, epoch: object) -> tuple[int, int]:
    """Return what orders the scalars of a tag: the latest has the largest, and of equal ones it is the first.

    A scalar without a valid *epoch* is before all that have one.
    """
    count = cut_count(epoch)
    return step, -1 if count is None else count


def is_smaller_better(tag: str, minimize: bool | None) -> bool:
    """Return whether smaller values of *tag* are better, *minimize* being what its scalars say last, if anything."""
    if minimize is not None:
        return minimize
    # In any case of the ASCII letters, and of no others.
    lowered = tag.encode("utf-8", "replace").lower().decode("utf-8", "replace")
    return any(word in lowered for word in KAUN_SMALLER_IS_BETTER)
